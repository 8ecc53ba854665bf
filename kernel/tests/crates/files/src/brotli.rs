//! Compresses with Brotli.

use std::io::{Read, Write};

use brotli::{CompressorWriter, Decompressor};

use crate::folder::text;

pub fn run() -> crate_uses::Result {
    let text = text();
    for quality in [1, 5] {
        let mut writer = CompressorWriter::new(Vec::new(), 4096, quality, 18);
        text.chunks(1000).try_for_each(|chunk| writer.write_all(chunk))?;
        let compressed = writer.into_inner();
        println!("{quality}: {} {}", compressed.len(), crate_uses::digest(&compressed));
        let mut again = Vec::new();
        Decompressor::new(compressed.as_slice(), 512).read_to_end(&mut again)?;
        crate_uses::ensure(again == text, "another text")?;
    }
    println!(
        "{:?}",
        Decompressor::new(&b"\xff\xff"[..], 16).read_to_end(&mut Vec::new()).map_err(|error| error.kind())
    );
    Ok(())
}
