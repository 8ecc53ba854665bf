//! Crates for cryptography and random numbers.

mod encryption;
mod hashes;
mod keys;
mod random;
mod secrets;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[
        ("aes-gcm", encryption::aes_gcm),
        ("argon2", hashes::argon2),
        ("blake3", hashes::blake3),
        ("chacha20poly1305", encryption::chacha20poly1305),
        ("crc32fast", hashes::crc32fast),
        ("ed25519-dalek", keys::ed25519_dalek),
        ("fastrand", random::fastrand),
        ("getrandom", random::getrandom),
        ("hmac", hashes::hmac),
        ("md-5", hashes::md_5),
        ("p256", keys::p256),
        ("rand", random::rand),
        ("rand_chacha", random::rand_chacha),
        ("rsa", keys::rsa),
        ("sha1", hashes::sha1),
        ("sha2", hashes::sha2),
        ("subtle", secrets::subtle),
        ("x25519-dalek", keys::x25519_dalek),
        ("zeroize", secrets::zeroize),
    ])
}
