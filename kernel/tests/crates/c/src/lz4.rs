//! Compresses a stream and blocks.

use std::io::{Read, Write};

use ::lz4::block::{CompressionMode, compress, decompress};
use ::lz4::{Decoder, EncoderBuilder};

pub fn run() -> crate_uses::Result {
    let text: Vec<u8> =
        crate_uses::numbers(2).take(50_000).flat_map(|number| format!("{} ", number % 100).into_bytes()).collect();
    for level in [0, 4, 12] {
        let mut encoder = EncoderBuilder::new().level(level).build(Vec::new())?;
        text.chunks(999).try_for_each(|chunk| encoder.write_all(chunk))?;
        let (packed, result) = encoder.finish();
        result?;
        let mut unpacked = Vec::new();
        Decoder::new(&packed[..])?.read_to_end(&mut unpacked)?;
        println!("{level} {} {} {}", packed.len(), crate_uses::digest(&packed), unpacked == text);
    }
    let packed = compress(&text, Some(CompressionMode::HIGHCOMPRESSION(9)), true)?;
    println!("{} {}", packed.len(), decompress(&packed, None)? == text);
    println!("{:?}", decompress(&packed[..packed.len() / 2], None).map_err(|error| error.kind()));
    Ok(())
}
