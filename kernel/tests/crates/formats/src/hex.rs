//! Hexadecimal digits.

use hex::{FromHex, FromHexError, ToHex};

pub fn run() -> crate_uses::Result {
    let bytes: Vec<u8> = (0..40).map(|number| number * 6 + 1).collect();
    let text: String = bytes.encode_hex();
    println!("{text} {}", hex::encode_upper(&bytes[..4]));
    crate_uses::ensure(hex::decode(&text)? == bytes, "another value")?;
    println!("{:?} {:?}", <[u8; 4]>::from_hex("DEADbeef"), <[u8; 3]>::from_hex("DEADbeef"));
    let mut out = [0; 4];
    println!("{:?} {out:?}", hex::decode_to_slice("0001", &mut out));
    for text in ["abc", "zz", "1g"] {
        let error: FromHexError = hex::decode(text).unwrap_err();
        println!("{error}");
    }
    Ok(())
}
