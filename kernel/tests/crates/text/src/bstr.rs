//! Treats bytes as text that may not be UTF-8.

use bstr::{BStr, ByteSlice};

pub fn run() -> crate_uses::Result {
    let bytes = b"one \xFFtwo\nthree \xE2\x98\x83\r\nfour";
    for line in bytes.lines() {
        println!("{:?} {} characters", BStr::new(line), line.chars().count());
    }
    println!("{:?}", bytes.find("three"));
    println!("{}", bytes.to_str_lossy().replace('\n', "|").replace('\r', ""));
    println!("{:?}", bytes.fields().map(|field| field.to_uppercase().as_bstr().to_string()).collect::<Vec<_>>());
    println!("{:?}", bytes.graphemes().filter(|grapheme| grapheme.len() > 1).collect::<Vec<_>>());
    Ok(())
}
