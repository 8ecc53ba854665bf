//! Digests, authenticated encryption, signatures and key agreement, much of it in assembly.

use ::ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ::ring::rand::SystemRandom;
use ::ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use ::ring::{agreement, digest, hmac, pbkdf2};

pub fn run() -> crate_uses::Result {
    let text: Vec<u8> = crate_uses::numbers(3).map(|number| number as u8).take(100_000).collect();
    for algorithm in [&digest::SHA1_FOR_LEGACY_USE_ONLY, &digest::SHA256, &digest::SHA512] {
        println!("{:?}", digest::digest(algorithm, &text));
    }
    println!("{:02x?}", hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"key"), &text).as_ref());
    let mut derived = [0; 20];
    let rounds = std::num::NonZeroU32::new(1000).ok_or("zero")?;
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, b"salt", b"password", &mut derived);
    println!("{derived:02x?}");
    for algorithm in [&AES_256_GCM, &CHACHA20_POLY1305] {
        let key = LessSafeKey::new(UnboundKey::new(algorithm, &[7; 32]).map_err(|_| "key")?);
        let nonce = || Nonce::assume_unique_for_key([9; 12]);
        let mut sealed = text.clone();
        key.seal_in_place_append_tag(nonce(), Aad::from(b"more"), &mut sealed).map_err(|_| "sealing")?;
        println!("{}", crate_uses::digest(&sealed));
        let opened = key.open_in_place(nonce(), Aad::from(b"more"), &mut sealed).map_err(|_| "opening")?;
        crate_uses::ensure(opened == text, "not the same")?;
        println!("{}", key.open_in_place(nonce(), Aad::from(b"less"), &mut sealed).is_err());
    }
    let pair = Ed25519KeyPair::from_seed_unchecked(&[5; 32]).map_err(|_| "seed")?;
    let signature = pair.sign(&text);
    println!("{:02x?}", signature.as_ref());
    let public = UnparsedPublicKey::new(&ED25519, pair.public_key());
    println!("{} {}", public.verify(&text, signature.as_ref()).is_ok(), public.verify(b"x", signature.as_ref()).is_ok());
    let random = SystemRandom::new();
    let generate = || agreement::EphemeralPrivateKey::generate(&agreement::X25519, &random);
    let (one, two) = (generate().map_err(|_| "key")?, generate().map_err(|_| "key")?);
    let (of_one, of_two) = (one.compute_public_key(), two.compute_public_key());
    let agree = |own, other: agreement::PublicKey| {
        let other = agreement::UnparsedPublicKey::new(&agreement::X25519, other);
        agreement::agree_ephemeral(own, &other, <[u8]>::to_vec)
    };
    let first = agree(one, of_two.map_err(|_| "public key")?).map_err(|_| "agreement")?;
    let second = agree(two, of_one.map_err(|_| "public key")?).map_err(|_| "agreement")?;
    println!("{}", first == second);
    Ok(())
}
