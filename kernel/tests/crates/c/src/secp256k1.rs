//! Signs, verifies and recovers.

use ::secp256k1::{Keypair, Message, PublicKey, Secp256k1, SecretKey};

pub fn run() -> crate_uses::Result {
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
