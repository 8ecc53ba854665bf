//! Authenticates messages.

use hmac::{Hmac, Mac};
use sha2::{Sha256, Sha512};

pub fn run() -> crate_uses::Result {
    for key in [&b"key"[..], &[0xaa; 131]] {
        let mut mac = Hmac::<Sha256>::new_from_slice(key)?;
        mac.update(b"The quick brown fox ");
        mac.update(b"jumps over the lazy dog");
        let code = mac.clone().finalize().into_bytes();
        println!("{code:02x}");
        println!("{:?} {:?}", mac.clone().verify(&code), mac.clone().verify_truncated_left(&code[..8]));
        println!("{:?}", mac.verify_slice(&[0; 32]).map_err(|error| error.to_string()));
    }
    let mut mac = Hmac::<Sha512>::new_from_slice(b"other")?;
    mac.update(&[1; 1000]);
    println!("{:02x}", mac.finalize_reset().into_bytes());
    Ok(())
}
