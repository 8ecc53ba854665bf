//! Signatures and key agreement.

use p256::SecretKey;
use p256::ecdh::diffie_hellman;
use rand_core::OsRng;
use rsa::signature::{Keypair, SignatureEncoding};
use rsa::traits::PublicKeyParts;
use rsa::{BigUint, Oaep, Pkcs1v15Encrypt, RsaPrivateKey};
use sha2::Sha256;
use x25519_dalek::{StaticSecret, x25519};

/// Signs and verifies.
pub fn ed25519_dalek() -> crate_uses::Result {
    use ed25519_dalek::{Signature, Signer, SigningKey, Verifier, VerifyingKey};

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

/// Signatures and key agreement on the curve P-256.
pub fn p256() -> crate_uses::Result {
    use p256::PublicKey;
    use p256::ecdh::EphemeralSecret;
    use p256::ecdsa::signature::{Signer, Verifier};
    use p256::ecdsa::{Signature, SigningKey, VerifyingKey};

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

/// Signs and encrypts with RSA, with a small key.
pub fn rsa() -> crate_uses::Result {
    use rsa::pkcs1v15::SigningKey;
    use rsa::signature::{Signer, Verifier};

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

/// Key agreement on Curve25519.
pub fn x25519_dalek() -> crate_uses::Result {
    use x25519_dalek::{EphemeralSecret, PublicKey};

    let (alice, bob) = (StaticSecret::from([0x77; 32]), StaticSecret::from([0x5d; 32]));
    let (from_alice, from_bob) = (PublicKey::from(&alice), PublicKey::from(&bob));
    println!("{:02x?}\n{:02x?}", from_alice.as_bytes(), alice.diffie_hellman(&from_bob).as_bytes());
    println!("{}", alice.diffie_hellman(&from_bob).as_bytes() == bob.diffie_hellman(&from_alice).as_bytes());
    let (one, other) = (EphemeralSecret::random_from_rng(OsRng), EphemeralSecret::random_from_rng(OsRng));
    let (from_one, from_other) = (PublicKey::from(&one), PublicKey::from(&other));
    let shared = one.diffie_hellman(&from_other);
    println!(
        "{} {}",
        shared.was_contributory(),
        shared.as_bytes() == other.diffie_hellman(&from_one).as_bytes()
    );
    println!("{:02x?}", x25519([4; 32], x25519_dalek::X25519_BASEPOINT_BYTES));
    Ok(())
}
