//! Compresses and decompresses: in memory, as a stream, with a dictionary, and with threads' worth of levels.

use std::io::{Read, Write};

fn text() -> Vec<u8> {
    crate_uses::numbers(1).take(60_000).flat_map(|number| format!("{} ", number % 1000).into_bytes()).collect()
}

pub fn run() -> crate_uses::Result {
    let text = text();
    for level in [1, 3, 9, 19] {
        let packed = ::zstd::bulk::compress(&text, level)?;
        println!("{level} {} {}", packed.len(), crate_uses::digest(&packed));
        crate_uses::ensure(::zstd::bulk::decompress(&packed, text.len())? == text, "not the same")?;
    }
    let mut encoder = ::zstd::stream::Encoder::new(Vec::new(), 5)?;
    encoder.include_checksum(true)?;
    text.chunks(777).try_for_each(|chunk| encoder.write_all(chunk))?;
    let mut packed = encoder.finish()?;
    let mut unpacked = Vec::new();
    ::zstd::stream::Decoder::new(&packed[..])?.read_to_end(&mut unpacked)?;
    println!("{} {}", packed.len(), unpacked == text);
    let middle = packed.len() / 2;
    packed[middle] ^= 1;
    let damaged = ::zstd::stream::decode_all(&packed[..]);
    println!("{}", damaged.is_err());
    let samples: Vec<Vec<u8>> = text.chunks(400).map(<[u8]>::to_vec).collect();
    let dictionary = ::zstd::dict::from_samples(&samples, 4096)?;
    let packed = ::zstd::bulk::Compressor::with_dictionary(3, &dictionary)?.compress(&samples[0])?;
    let unpacked = ::zstd::bulk::Decompressor::with_dictionary(&dictionary)?.decompress(&packed, 400)?;
    println!("{} {} {}", dictionary.len(), packed.len(), unpacked == samples[0]);
    Ok(())
}
