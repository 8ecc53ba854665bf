//! SHA-2, on several threads.

use std::thread;

use sha2::{Digest, Sha224, Sha256, Sha384, Sha512, Sha512_256};

fn hash<D: Digest>() -> String {
    let mut hasher = D::new();
    crate_uses::numbers(2).take(20_000).for_each(|number| hasher.update(number.to_be_bytes()));
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn run() -> crate_uses::Result {
    println!("{:02x}", Sha256::digest(b"abc"));
    let functions = [hash::<Sha224>, hash::<Sha256>, hash::<Sha384>, hash::<Sha512>, hash::<Sha512_256>];
    let threads = functions.map(thread::spawn);
    for thread in threads {
        println!("{}", thread.join().map_err(|_| "panic")?);
    }
    Ok(())
}
