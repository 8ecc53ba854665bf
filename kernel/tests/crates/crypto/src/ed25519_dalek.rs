//! Signs and verifies.

use ed25519_dalek::{Signature, Signer, SigningKey, Verifier, VerifyingKey};
use rand_core::OsRng;

pub fn run() -> crate_uses::Result {
    let key = SigningKey::from_bytes(&[42; 32]);
    let signature = key.sign(b"a message");
    println!("{:02x?}\n{signature}", key.verifying_key().to_bytes());
    println!("{:?}", key.verifying_key().verify(b"a message", &signature));
    println!("{:?}", key.verifying_key().verify(b"another", &signature).map_err(|error| error.to_string()));
    let random = SigningKey::generate(&mut OsRng);
    let public = VerifyingKey::from_bytes(&random.verifying_key().to_bytes())?;
    let bytes = random.sign(b"text").to_bytes();
    println!("{:?} {}", public.verify_strict(b"text", &Signature::from_bytes(&bytes)), public.is_weak());
    println!("{:?}", VerifyingKey::from_bytes(&[2; 32]).map(|_| ()).map_err(|error| error.to_string()));
    Ok(())
}
