//! Calls zlib.
#![expect(unsafe_code, reason = "the crate only declares C's functions")]

use ::libz_sys::{Z_OK, adler32, compress2, compressBound, crc32, uLong, uncompress};

pub fn run() -> crate_uses::Result {
    let text: Vec<u8> =
        crate_uses::numbers(5).take(50_000).flat_map(|number| format!("{} ", number % 100).into_bytes()).collect();
    let len = text.len() as uLong;
    // SAFETY: the pointer and the length are those of a vector.
    let sums = unsafe { (crc32(0, text.as_ptr(), len as u32), adler32(1, text.as_ptr(), len as u32)) };
    println!("{sums:x?}");
    for level in [1, 6, 9] {
        // SAFETY: the function computes with its argument alone.
        let mut size = unsafe { compressBound(len) };
        let mut packed = vec![0; size as usize];
        // SAFETY: pointers and lengths are those of vectors, and `size` that of the first one.
        let result = unsafe { compress2(packed.as_mut_ptr(), &raw mut size, text.as_ptr(), len, level) };
        crate_uses::ensure(result == Z_OK, "compress2 failed")?;
        packed.truncate(size as usize);
        let (mut unpacked, mut size) = (vec![0; text.len()], len);
        // SAFETY: pointers and lengths are those of vectors, and `size` is that of the first one.
        let result =
            unsafe { uncompress(unpacked.as_mut_ptr(), &raw mut size, packed.as_ptr(), packed.len() as uLong) };
        println!("{level} {} {} {result} {}", packed.len(), crate_uses::digest(&packed), unpacked == text);
    }
    Ok(())
}
