//! Checksums, also of parts.

use crc32fast::Hasher;

pub fn run() -> crate_uses::Result {
    let bytes: Vec<u8> = crate_uses::numbers(6).flat_map(u32::to_be_bytes).take(10_001).collect();
    println!("{:08x} {:08x}", crc32fast::hash(b"123456789"), crc32fast::hash(&bytes));
    let (mut one, mut other) = (Hasher::new(), Hasher::new());
    one.update(&bytes[..1234]);
    other.update(&bytes[1234..]);
    one.combine(&other);
    println!("{:08x}", one.finalize());
    let mut resumed = Hasher::new_with_initial(crc32fast::hash(&bytes[..5000]));
    bytes[5000..].chunks(33).for_each(|chunk| resumed.update(chunk));
    println!("{:08x}", resumed.finalize());
    Ok(())
}
