//! Digests, checksums and hashes of passwords.

use std::io::{Read, Write};
use std::thread;

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use hmac::{Hmac, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512, Sha512_256};

/// Hashes passwords.
pub fn argon2() -> crate_uses::Result {
    let parameters = Params::new(64, 2, 1, None).map_err(|error| error.to_string())?;
    for algorithm in [Algorithm::Argon2d, Algorithm::Argon2i, Algorithm::Argon2id] {
        let mut key = [0; 24];
        let hasher = Argon2::new(algorithm, Version::V0x13, parameters.clone());
        hasher.hash_password_into(b"password", b"some salt", &mut key).map_err(|error| error.to_string())?;
        println!("{algorithm} {key:02x?}");
    }
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
    let salt = SaltString::generate(&mut OsRng);
    let text = hasher.hash_password(b"secret", &salt).map_err(|error| error.to_string())?.to_string();
    let hash = PasswordHash::new(&text).map_err(|error| error.to_string())?;
    println!("{} {:?}", hash.algorithm, hash.params.get_decimal("m"));
    println!("{:?} {:?}", hasher.verify_password(b"secret", &hash), hasher.verify_password(b"Secret", &hash));
    Ok(())
}

/// Hashes, keyed hashes and keys by BLAKE3.
pub fn blake3() -> crate_uses::Result {
    use blake3::Hasher;

    let bytes: Vec<u8> = crate_uses::numbers(9).flat_map(u32::to_le_bytes).take(50_000).collect();
    println!("{} {}", blake3::hash(b""), blake3::hash(&bytes));
    let mut hasher = Hasher::new_keyed(&[3; 32]);
    for chunk in bytes.chunks(777) {
        hasher.update(chunk);
    }
    println!("{}", hasher.finalize());
    let mut output = hasher.finalize_xof();
    output.set_position(1000);
    let mut more = [0; 20];
    output.read_exact(&mut more)?;
    println!("{more:02x?} {:02x?}", &blake3::derive_key("context 2024", b"material")[..8]);
    println!("{}", blake3::Hash::from_hex(blake3::hash(b"a").to_hex().as_bytes())? == blake3::hash(b"a"));
    Ok(())
}

/// Checksums, also of parts.
pub fn crc32fast() -> crate_uses::Result {
    use crc32fast::Hasher;

    let bytes: Vec<u8> = crate_uses::numbers(6).flat_map(u32::to_be_bytes).take(10_001).collect();
    println!("{:08x} {:08x}", crc32fast::hash(b"123456789"), crc32fast::hash(&bytes));
    let (mut one, mut other) = (Hasher::new(), Hasher::new());
    one.update(&bytes[..1234]);
    other.update(&bytes[1234..]);
    one.combine(&other);
    println!("{:08x}", one.finalize());
    let mut resumed = Hasher::new_with_initial(crc32fast::hash(&bytes[..5000]));
    bytes[5000..].chunks(33).for_each(|chunk| resumed.update(chunk));
    println!("{:08x}", resumed.finalize());
    Ok(())
}

/// Authenticates messages.
pub fn hmac() -> crate_uses::Result {
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

/// MD5.
pub fn md_5() -> crate_uses::Result {
    use md5::Digest;

    for text in ["", "abc", "The quick brown fox jumps over the lazy dog"] {
        println!("{:02x}", Md5::digest(text));
    }
    let mut hasher = Md5::new();
    crate_uses::numbers(1).take(5000).try_for_each(|number| hasher.write_all(&number.to_be_bytes()))?;
    println!("{:02x} {:02x}", hasher.finalize_reset(), hasher.chain_update("a").finalize());
    Ok(())
}

/// SHA-1.
pub fn sha1() -> crate_uses::Result {
    use sha1::Digest;

    for text in ["", "abc", "The quick brown fox jumps over the lazy dog"] {
        println!("{:02x}", Sha1::digest(text));
    }
    let mut hasher = Sha1::new();
    (0..1000).for_each(|_| hasher.update([b'a'; 1000]));
    println!("{:02x}", hasher.finalize());
    Ok(())
}

fn hash<D: Digest>() -> String {
    let mut hasher = D::new();
    crate_uses::numbers(2).take(20_000).for_each(|number| hasher.update(number.to_be_bytes()));
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-2, on several threads.
pub fn sha2() -> crate_uses::Result {
    println!("{:02x}", Sha256::digest(b"abc"));
    let functions = [hash::<Sha224>, hash::<Sha256>, hash::<Sha384>, hash::<Sha512>, hash::<Sha512_256>];
    let threads = functions.map(thread::spawn);
    for thread in threads {
        println!("{}", thread.join().map_err(|_| "panic")?);
    }
    Ok(())
}
