//! Hashes passwords.

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};

pub fn run() -> crate_uses::Result {
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
