//! Compression.

use std::io::{Read, Write};

use bzip2::Compression;
use bzip2::read::BzDecoder;
use bzip2::write::BzEncoder;
use libz_sys::{Z_OK, adler32, compress2, compressBound, crc32, uLong, uncompress};
use lz4::block::{CompressionMode, compress, decompress};
use lz4::{Decoder, EncoderBuilder};

/// Compresses and decompresses a stream.
pub fn bzip2() -> crate_uses::Result {
    let text: Vec<u8> = crate_uses::numbers(4)
        .take(50_000)
        .flat_map(|number| format!("{} ", number % 100).into_bytes())
        .collect();
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

/// Calls zlib.
#[expect(unsafe_code, reason = "the crate only declares C's functions")]
pub fn libz_sys() -> crate_uses::Result {
    let text: Vec<u8> = crate_uses::numbers(5)
        .take(50_000)
        .flat_map(|number| format!("{} ", number % 100).into_bytes())
        .collect();
    let len = text.len() as uLong;
    // SAFETY: the pointer and the length are those of a vector.
    let sums = unsafe { (crc32(0, text.as_ptr(), len as u32), adler32(1, text.as_ptr(), len as u32)) };
    println!("{sums:x?}");
    for level in [1, 6, 9] {
        // SAFETY: the function computes with its argument alone.
        let mut size = unsafe { compressBound(len) };
        let mut packed = vec![0; size as usize];
        // SAFETY: pointers and lengths are those of vectors, and `size` that of the first one.
        let result = unsafe { compress2(packed.as_mut_ptr(), &raw mut size, text.as_ptr(), len, level) };
        crate_uses::ensure(result == Z_OK, "compress2 failed")?;
        packed.truncate(size as usize);
        let (mut unpacked, mut size) = (vec![0; text.len()], len);
        // SAFETY: pointers and lengths are those of vectors, and `size` is that of the first one.
        let result = unsafe {
            uncompress(unpacked.as_mut_ptr(), &raw mut size, packed.as_ptr(), packed.len() as uLong)
        };
        println!("{level} {} {} {result} {}", packed.len(), crate_uses::digest(&packed), unpacked == text);
    }
    Ok(())
}

/// Compresses a stream and blocks.
pub fn lz4() -> crate_uses::Result {
    let text: Vec<u8> = crate_uses::numbers(2)
        .take(50_000)
        .flat_map(|number| format!("{} ", number % 100).into_bytes())
        .collect();
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

fn text() -> Vec<u8> {
    crate_uses::numbers(1)
        .take(60_000)
        .flat_map(|number| format!("{} ", number % 1000).into_bytes())
        .collect()
}

/// Compresses and decompresses: in memory, as a stream, with a dictionary, and with threads' worth of levels.
pub fn zstd() -> crate_uses::Result {
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
