//! MD5.

use std::io::Write;

use md5::{Digest, Md5};

pub fn run() -> crate_uses::Result {
    for text in ["", "abc", "The quick brown fox jumps over the lazy dog"] {
        println!("{:02x}", Md5::digest(text));
    }
    let mut hasher = Md5::new();
    crate_uses::numbers(1).take(5000).try_for_each(|number| hasher.write_all(&number.to_be_bytes()))?;
    println!("{:02x} {:02x}", hasher.finalize_reset(), hasher.chain_update("a").finalize());
    Ok(())
}
