//! Authenticated encryption.

use aes_gcm::aead::{AeadInPlace, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, Nonce};
use chacha20poly1305::aead::stream::{DecryptorBE32, EncryptorBE32};
use chacha20poly1305::{ChaCha20Poly1305, XChaCha20Poly1305};

/// Encrypts with AES-GCM, and detects changes.
pub fn aes_gcm() -> crate_uses::Result {
    use aes_gcm::AeadCore;
    use aes_gcm::aead::{Aead, KeyInit, OsRng};

    let cipher = Aes256Gcm::new(&[7; 32].into());
    let nonce = Nonce::from_slice(b"unique nonce");
    let mut encrypted =
        cipher.encrypt(nonce, Payload { msg: b"plain text", aad: b"header" }).map_err(|_| "encryption")?;
    println!("{encrypted:02x?}");
    let plain =
        cipher.decrypt(nonce, Payload { msg: &encrypted, aad: b"header" }).map_err(|_| "decryption")?;
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

/// Encrypts with ChaCha20-Poly1305.
pub fn chacha20poly1305() -> crate_uses::Result {
    use chacha20poly1305::AeadCore;
    use chacha20poly1305::aead::{Aead, KeyInit, OsRng};

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
        println!(
            "{:02x?} {:?}",
            &encrypted[..3],
            decryptor.decrypt_next(encrypted.as_slice()).map(String::from_utf8)
        );
    }
    Ok(())
}
