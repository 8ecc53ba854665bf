//! Signs and encrypts with RSA, with a small key.

use rsa::pkcs1v15::SigningKey;
use rsa::signature::{Keypair, SignatureEncoding, Signer, Verifier};
use rsa::traits::PublicKeyParts;
use rsa::{BigUint, Oaep, Pkcs1v15Encrypt, RsaPrivateKey};
use sha2::Sha256;

/// Primes of 512 bits, in hexadecimal digits.
const PRIMES: [[&str; 2]; 2] = [
    [
        "faa424fbfb43f865f55478f770cb2820aea105b84a615f1971a13d855b93e1e0",
        "39babfb7917440b48d47ae8fd89443a47aabe3867857af36d300a7c89a747ce3",
    ],
    [
        "c1e49a60f48ce0a3149bba6983f7e81ab3d770253cd3b4e5737ef58310d0906a",
        "ce1ab5a43cb64919c6b4a862bc7cdb849c8c88eb150d611d25fdc1396833fd63",
    ],
];

pub fn run() -> crate_uses::Result {
    let [first, second] = PRIMES.map(|digits| BigUint::parse_bytes(digits.concat().as_bytes(), 16));
    let primes = first.zip(second).ok_or("no numbers")?;
    let key = RsaPrivateKey::from_p_q(primes.0, primes.1, BigUint::from(65_537_u32))?;
    println!("{} bits", key.size() * 8);
    let signing = SigningKey::<Sha256>::new(key.clone());
    let signature = signing.sign(b"message");
    println!("{}", crate_uses::digest(&signature.to_bytes()));
    println!("{:?}", signing.verifying_key().verify(b"message", &signature));
    println!("{:?}", signing.verifying_key().verify(b"other", &signature).map_err(|error| error.to_string()));
    let public = key.to_public_key();
    let encrypted = public.encrypt(&mut rand_core::OsRng, Pkcs1v15Encrypt, b"secret")?;
    println!("{:?}", key.decrypt(Pkcs1v15Encrypt, &encrypted).map(String::from_utf8));
    let encrypted = public.encrypt(&mut rand_core::OsRng, Oaep::new::<Sha256>(), b"other")?;
    println!("{:?}", key.decrypt(Oaep::new::<Sha256>(), &encrypted).map(String::from_utf8));
    println!("{:?}", key.decrypt(Pkcs1v15Encrypt, &encrypted).map_err(|error| error.to_string()));
    Ok(())
}
