//! Searches bytes.

use memchr::{memchr, memchr_iter, memchr2, memchr3, memmem, memrchr};

pub fn run() -> crate_uses::Result {
    let bytes: Vec<u8> = crate_uses::numbers(7).take(10_000).map(|number| number as u8).collect();
    for byte in [0, 1, 17, 255] {
        let (first, last) = (memchr(byte, &bytes), memrchr(byte, &bytes));
        println!("{byte}: {first:?} {last:?} {} times", memchr_iter(byte, &bytes).count());
    }
    println!("{:?} {:?}", memchr2(3, 4, &bytes), memchr3(8, 9, 10, &bytes[500..]));
    let text = "the quick brown fox jumps over the lazy dog ".repeat(100);
    let finder = memmem::Finder::new("lazy dog the");
    println!("{:?} {}", finder.find(text.as_bytes()), finder.find_iter(text.as_bytes()).count());
    println!("{:?} {:?}", memmem::rfind(text.as_bytes(), b"fox"), memmem::find(text.as_bytes(), b"cat"));
    Ok(())
}
