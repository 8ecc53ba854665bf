//! Compression.

use std::io::{Read, Write};

use brotli::{CompressorWriter, Decompressor};
use flate2::read::{GzDecoder, MultiGzDecoder, ZlibDecoder};
use flate2::write::{DeflateDecoder, DeflateEncoder, ZlibEncoder};
use flate2::{Compression, Crc, GzBuilder};
use lz4_flex::block::{compress_prepend_size, decompress_size_prepended};
use lz4_flex::frame::{BlockSize, FrameInfo};
use snap::raw::{Decoder, Encoder, decompress_len};

use crate::folder::text;

/// Compresses with Brotli.
pub fn brotli() -> crate_uses::Result {
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

/// Compresses with DEFLATE.
pub fn flate2() -> crate_uses::Result {
    let text = text();
    for level in [Compression::fast(), Compression::new(5), Compression::best()] {
        let mut encoder = ZlibEncoder::new(Vec::new(), level);
        text.chunks(999).try_for_each(|chunk| encoder.write_all(chunk))?;
        let compressed = encoder.finish()?;
        println!("{level:?} {} {}", compressed.len(), crate_uses::digest(&compressed));
        let mut again = Vec::new();
        ZlibDecoder::new(compressed.as_slice()).read_to_end(&mut again)?;
        crate_uses::ensure(again == text, "another text")?;
    }
    let mut gz = GzBuilder::new().filename("name").mtime(5).write(Vec::new(), Compression::default());
    gz.write_all(b"content")?;
    let file = gz.finish()?;
    println!(
        "{:?}",
        GzDecoder::new(file.as_slice())
            .header()
            .map(|header| (header.filename().map(<[u8]>::to_vec), header.mtime()))
    );
    let mut content = String::new();
    MultiGzDecoder::new([file.as_slice(), &file].concat().as_slice()).read_to_string(&mut content)?;
    println!(
        "{content} {:?}",
        GzDecoder::new(&file[..20]).read_to_end(&mut Vec::new()).map_err(|error| error.kind())
    );
    let mut raw = DeflateEncoder::new(DeflateDecoder::new(Vec::new()), Compression::none());
    raw.write_all(b"through both")?;
    println!("{:?}", String::from_utf8(raw.finish()?.finish()?)?);
    let mut crc = Crc::new();
    crc.update(b"123456789");
    println!("{:x}", crc.sum());
    Ok(())
}

/// Compresses with LZ4.
pub fn lz4_flex() -> crate_uses::Result {
    use lz4_flex::frame::{FrameDecoder, FrameEncoder};

    let text = text();
    let block = compress_prepend_size(&text);
    println!("{} {}", block.len(), crate_uses::digest(&block));
    crate_uses::ensure(decompress_size_prepended(&block)? == text, "another text")?;
    println!("{:?}", decompress_size_prepended(&block[..100]).map_err(|error| error.to_string()));
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).content_checksum(true);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    text.chunks(12_345).try_for_each(|chunk| encoder.write_all(chunk))?;
    let mut frame = encoder.finish()?;
    println!("{} {}", frame.len(), crate_uses::digest(&frame));
    let mut again = Vec::new();
    FrameDecoder::new(frame.as_slice()).read_to_end(&mut again)?;
    crate_uses::ensure(again == text, "another text")?;
    let middle = frame.len() / 2;
    frame[middle] ^= 0x55;
    println!("{}", FrameDecoder::new(frame.as_slice()).read_to_end(&mut Vec::new()).is_err());
    Ok(())
}

/// Compresses with Snappy.
pub fn snap() -> crate_uses::Result {
    use snap::read::FrameDecoder;
    use snap::write::FrameEncoder;

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
