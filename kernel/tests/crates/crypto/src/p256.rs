//! Signatures and key agreement on the curve P-256.

use p256::ecdh::{EphemeralSecret, diffie_hellman};
use p256::ecdsa::signature::{Signer, Verifier};
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use p256::{PublicKey, SecretKey};
use rand_core::OsRng;

pub fn run() -> crate_uses::Result {
    let key = SigningKey::from_slice(&[0x17; 32])?;
    let signature: Signature = key.sign(b"message");
    println!("{signature} {}", signature.to_der().as_bytes().len());
    let public = VerifyingKey::from_sec1_bytes(key.verifying_key().to_encoded_point(true).as_bytes())?;
    println!("{:?} {}", public.verify(b"message", &signature), public.verify(b"other", &signature).is_err());
    let (one, other) = (SecretKey::from_slice(&[1; 32])?, SecretKey::from_slice(&[2; 32])?);
    let shared = diffie_hellman(one.to_nonzero_scalar(), other.public_key().as_affine());
    println!("{:02x?}", shared.raw_secret_bytes());
    let (mine, theirs) = (EphemeralSecret::random(&mut OsRng), EphemeralSecret::random(&mut OsRng));
    let agreed = mine.diffie_hellman(&theirs.public_key());
    println!("{}", agreed.raw_secret_bytes() == theirs.diffie_hellman(&mine.public_key()).raw_secret_bytes());
    println!("{}", PublicKey::from_sec1_bytes(&[4; 65]).is_err());
    Ok(())
}
