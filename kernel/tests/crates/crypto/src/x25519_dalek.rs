//! Key agreement on Curve25519.

use rand_core::OsRng;
use x25519_dalek::{EphemeralSecret, PublicKey, StaticSecret, x25519};

pub fn run() -> crate_uses::Result {
    let (alice, bob) = (StaticSecret::from([0x77; 32]), StaticSecret::from([0x5d; 32]));
    let (from_alice, from_bob) = (PublicKey::from(&alice), PublicKey::from(&bob));
    println!("{:02x?}\n{:02x?}", from_alice.as_bytes(), alice.diffie_hellman(&from_bob).as_bytes());
    println!("{}", alice.diffie_hellman(&from_bob).as_bytes() == bob.diffie_hellman(&from_alice).as_bytes());
    let (one, other) = (EphemeralSecret::random_from_rng(OsRng), EphemeralSecret::random_from_rng(OsRng));
    let (from_one, from_other) = (PublicKey::from(&one), PublicKey::from(&other));
    let shared = one.diffie_hellman(&from_other);
    println!("{} {}", shared.was_contributory(), shared.as_bytes() == other.diffie_hellman(&from_one).as_bytes());
    println!("{:02x?}", x25519([4; 32], x25519_dalek::X25519_BASEPOINT_BYTES));
    Ok(())
}
