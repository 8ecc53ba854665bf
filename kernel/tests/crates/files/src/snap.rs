//! Compresses with Snappy.

use std::io::{Read, Write};

use snap::raw::{Decoder, Encoder, decompress_len};
use snap::read::FrameDecoder;
use snap::write::FrameEncoder;

use crate::folder::text;

pub fn run() -> crate_uses::Result {
    let text = text();
    let compressed = Encoder::new().compress_vec(&text)?;
    println!("{} {} {}", compressed.len(), crate_uses::digest(&compressed), decompress_len(&compressed)?);
    crate_uses::ensure(Decoder::new().decompress_vec(&compressed)? == text, "another text")?;
    println!("{}", Decoder::new().decompress_vec(&compressed[..50]).unwrap_err());
    let mut encoder = FrameEncoder::new(Vec::new());
    text.chunks(5000).try_for_each(|chunk| encoder.write_all(chunk))?;
    let framed = encoder.into_inner().map_err(|error| error.to_string())?;
    println!("{} {}", framed.len(), crate_uses::digest(&framed));
    let mut again = Vec::new();
    FrameDecoder::new(framed.as_slice()).read_to_end(&mut again)?;
    crate_uses::ensure(again == text, "another text")
}
