//! Hashes, keyed hashes and keys by BLAKE3.

use std::io::Read;

use blake3::Hasher;

pub fn run() -> crate_uses::Result {
    let bytes: Vec<u8> = crate_uses::numbers(9).flat_map(u32::to_le_bytes).take(50_000).collect();
    println!("{} {}", blake3::hash(b""), blake3::hash(&bytes));
    let mut hasher = Hasher::new_keyed(&[3; 32]);
    for chunk in bytes.chunks(777) {
        hasher.update(chunk);
    }
    println!("{}", hasher.finalize());
    let mut output = hasher.finalize_xof();
    output.set_position(1000);
    let mut more = [0; 20];
    output.read_exact(&mut more)?;
    println!("{more:02x?} {:02x?}", &blake3::derive_key("context 2024", b"material")[..8]);
    println!("{}", blake3::Hash::from_hex(blake3::hash(b"a").to_hex().as_bytes())? == blake3::hash(b"a"));
    Ok(())
}
