//! Compresses with LZ4.

use std::io::{Read, Write};

use lz4_flex::block::{compress_prepend_size, decompress_size_prepended};
use lz4_flex::frame::{BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

use crate::folder::text;

pub fn run() -> crate_uses::Result {
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
