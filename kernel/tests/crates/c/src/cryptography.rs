//! Cryptography.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use ring::aead::CHACHA20_POLY1305;
use ring::signature::ED25519;
use ring::{agreement, pbkdf2};
use secp256k1::{Keypair, Message, PublicKey, Secp256k1, SecretKey};

/// Digests, authenticated encryption and signatures of AWS-LC.
pub fn aws_lc_rs() -> crate_uses::Result {
    use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair, UnparsedPublicKey};
    use aws_lc_rs::{digest, hmac};

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
    println!(
        "{} {}",
        public.verify(&text, signature.as_ref()).is_ok(),
        public.verify(b"x", signature.as_ref()).is_ok()
    );
    Ok(())
}

/// Digests, authenticated encryption, signatures and key agreement, much of it in assembly.
pub fn ring() -> crate_uses::Result {
    use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
    use ring::rand::SystemRandom;
    use ring::signature::{Ed25519KeyPair, KeyPair, UnparsedPublicKey};
    use ring::{digest, hmac};

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
    println!(
        "{} {}",
        public.verify(&text, signature.as_ref()).is_ok(),
        public.verify(b"x", signature.as_ref()).is_ok()
    );
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

/// Signs, verifies and recovers.
pub fn secp256k1() -> crate_uses::Result {
    let context = Secp256k1::new();
    let secret = SecretKey::from_byte_array([0x17; 32])?;
    let public = PublicKey::from_secret_key(&context, &secret);
    println!("{public}");
    let message = Message::from_digest([0xab; 32]);
    let signature = context.sign_ecdsa(message, &secret);
    println!("{signature}");
    println!("{:?}", context.verify_ecdsa(message, &signature, &public));
    println!("{:?}", context.verify_ecdsa(Message::from_digest([0xac; 32]), &signature, &public));
    let pair = Keypair::from_secret_key(&context, &secret);
    let signature = context.sign_schnorr_no_aux_rand(b"a text", &pair);
    println!("{signature} {:?}", context.verify_schnorr(&signature, b"a text", &pair.x_only_public_key().0));
    println!("{:?}", SecretKey::from_byte_array([0; 32]).map(|_| ()));
    Ok(())
}
