//! SHA-1.

use sha1::{Digest, Sha1};

pub fn run() -> crate_uses::Result {
    for text in ["", "abc", "The quick brown fox jumps over the lazy dog"] {
        println!("{:02x}", Sha1::digest(text));
    }
    let mut hasher = Sha1::new();
    (0..1000).for_each(|_| hasher.update([b'a'; 1000]));
    println!("{:02x}", hasher.finalize());
    Ok(())
}
