//! Encrypts with ChaCha20-Poly1305.

use chacha20poly1305::aead::stream::{DecryptorBE32, EncryptorBE32};
use chacha20poly1305::aead::{Aead, KeyInit, OsRng};
use chacha20poly1305::{AeadCore, ChaCha20Poly1305, XChaCha20Poly1305};

pub fn run() -> crate_uses::Result {
    let cipher = ChaCha20Poly1305::new(&[9; 32].into());
    let encrypted = cipher.encrypt(&[1; 12].into(), b"message".as_ref()).map_err(|_| "encryption")?;
    println!("{encrypted:02x?}");
    println!("{:?}", cipher.decrypt(&[1; 12].into(), encrypted.as_ref()).map(String::from_utf8));
    println!("{:?}", cipher.decrypt(&[2; 12].into(), encrypted.as_ref()));
    let cipher = XChaCha20Poly1305::new(&XChaCha20Poly1305::generate_key(&mut OsRng));
    let nonce = XChaCha20Poly1305::generate_nonce(&mut OsRng);
    let encrypted = cipher.encrypt(&nonce, b"secret".as_ref()).map_err(|_| "encryption")?;
    println!("{:?}", cipher.decrypt(&nonce, encrypted.as_ref()).map(String::from_utf8));
    let (key, nonce) = ([5; 32].into(), [0; 7].into());
    let mut encryptor = EncryptorBE32::from_aead(ChaCha20Poly1305::new(&key), &nonce);
    let mut decryptor = DecryptorBE32::from_aead(ChaCha20Poly1305::new(&key), &nonce);
    for part in ["one", "two", "three"] {
        let encrypted = encryptor.encrypt_next(part.as_bytes()).map_err(|_| "encryption")?;
        println!("{:02x?} {:?}", &encrypted[..3], decryptor.decrypt_next(encrypted.as_slice()).map(String::from_utf8));
    }
    Ok(())
}
