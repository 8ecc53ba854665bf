//! Digests, authenticated encryption and signatures of AWS-LC.

use ::aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ::aws_lc_rs::rand::SystemRandom;
use ::aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    UnparsedPublicKey,
};
use ::aws_lc_rs::{digest, hmac};

pub fn run() -> crate_uses::Result {
    let text: Vec<u8> = crate_uses::numbers(3).map(|number| number as u8).take(100_000).collect();
    for algorithm in [&digest::SHA256, &digest::SHA384, &digest::SHA3_256] {
        println!("{:02x?}", digest::digest(algorithm, &text).as_ref());
    }
    println!("{:02x?}", hmac::sign(&hmac::Key::new(hmac::HMAC_SHA512, b"key"), &text).as_ref());
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32])?);
    let mut sealed = text.clone();
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key([9; 12]), Aad::empty(), &mut sealed)?;
    println!("{}", crate_uses::digest(&sealed));
    let opened = key.open_in_place(Nonce::assume_unique_for_key([9; 12]), Aad::empty(), &mut sealed)?;
    crate_uses::ensure(opened == text, "not the same")?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&[5; 32])?;
    println!("{:02x?}", pair.sign(&text).as_ref());
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?;
    let signature = pair.sign(&random, &text)?;
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, pair.public_key().as_ref());
    println!("{} {}", public.verify(&text, signature.as_ref()).is_ok(), public.verify(b"x", signature.as_ref()).is_ok());
    Ok(())
}
