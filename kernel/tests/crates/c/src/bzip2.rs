//! Compresses and decompresses a stream.

use std::io::{Read, Write};

use ::bzip2::Compression;
use ::bzip2::read::BzDecoder;
use ::bzip2::write::BzEncoder;

pub fn run() -> crate_uses::Result {
    let text: Vec<u8> =
        crate_uses::numbers(4).take(50_000).flat_map(|number| format!("{} ", number % 100).into_bytes()).collect();
    for level in [1, 9] {
        let mut encoder = BzEncoder::new(Vec::new(), Compression::new(level));
        encoder.write_all(&text)?;
        let packed = encoder.finish()?;
        let mut unpacked = Vec::new();
        BzDecoder::new(&packed[..]).read_to_end(&mut unpacked)?;
        println!("{level} {} {} {}", packed.len(), crate_uses::digest(&packed), unpacked == text);
        let truncated = BzDecoder::new(&packed[..packed.len() / 2]).read_to_end(&mut Vec::new());
        println!("{:?}", truncated.map_err(|error| error.kind()));
    }
    Ok(())
}
