//! Encrypts with AES-GCM, and detects changes.

use aes_gcm::aead::{Aead, AeadInPlace, KeyInit, OsRng, Payload};
use aes_gcm::{AeadCore, Aes128Gcm, Aes256Gcm, Nonce};

pub fn run() -> crate_uses::Result {
    let cipher = Aes256Gcm::new(&[7; 32].into());
    let nonce = Nonce::from_slice(b"unique nonce");
    let mut encrypted = cipher.encrypt(nonce, Payload { msg: b"plain text", aad: b"header" }).map_err(|_| "encryption")?;
    println!("{encrypted:02x?}");
    let plain = cipher.decrypt(nonce, Payload { msg: &encrypted, aad: b"header" }).map_err(|_| "decryption")?;
    println!("{}", String::from_utf8(plain)?);
    encrypted[3] ^= 1;
    println!("{}", cipher.decrypt(nonce, Payload { msg: &encrypted, aad: b"header" }).is_err());
    let cipher = Aes128Gcm::new(&Aes128Gcm::generate_key(OsRng));
    let nonce = Aes128Gcm::generate_nonce(&mut OsRng);
    let original: Vec<u8> = (0..1000).map(|number| number as u8).collect();
    let mut buffer = original.clone();
    let tag = cipher.encrypt_in_place_detached(&nonce, b"", &mut buffer).map_err(|_| "encryption")?;
    crate_uses::ensure(buffer != original, "not encrypted")?;
    cipher.decrypt_in_place_detached(&nonce, b"", &mut buffer, &tag).map_err(|_| "decryption")?;
    crate_uses::ensure(buffer == original, "another text")
}
