//! Compresses with DEFLATE.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::{GzDecoder, MultiGzDecoder, ZlibDecoder};
use flate2::write::{DeflateDecoder, DeflateEncoder, ZlibEncoder};
use flate2::{Crc, GzBuilder};

use crate::folder::text;

pub fn run() -> crate_uses::Result {
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
