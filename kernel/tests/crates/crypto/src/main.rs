//! Crates for cryptography and random numbers.

crate_uses::crate_uses! {
    "aes-gcm": aes_gcm,
    "argon2": argon2,
    "blake3": blake3,
    "chacha20poly1305": chacha20poly1305,
    "crc32fast": crc32fast,
    "ed25519-dalek": ed25519_dalek,
    "fastrand": fastrand,
    "getrandom": getrandom,
    "hmac": hmac,
    "md-5": md_5,
    "p256": p256,
    "rand": rand,
    "rand_chacha": rand_chacha,
    "rsa": rsa,
    "sha1": sha1,
    "sha2": sha2,
    "subtle": subtle,
    "x25519-dalek": x25519_dalek,
    "zeroize": zeroize,
}
