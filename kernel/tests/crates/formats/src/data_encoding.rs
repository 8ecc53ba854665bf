//! Encodes bytes in standard and own bases.

use data_encoding::{BASE32, BASE32HEX_NOPAD, BASE64URL, HEXLOWER_PERMISSIVE, Specification};

pub fn run() -> crate_uses::Result {
    let bytes: Vec<u8> = crate_uses::numbers(77).map(|number| (number >> 7) as u8).take(23).collect();
    for encoding in [BASE32, BASE32HEX_NOPAD, BASE64URL, HEXLOWER_PERMISSIVE] {
        let text = encoding.encode(&bytes);
        println!("{text}");
        crate_uses::ensure(encoding.decode(text.as_bytes())? == bytes, "another value")?;
    }
    let mut specification = Specification::new();
    specification.symbols.push_str("01234567");
    specification.ignore.push('-');
    let octal = specification.encoding()?;
    println!("{} {:?}", octal.encode(&[1, 2, 3]), octal.decode(b"0020-0803"));
    println!("{:?}", HEXLOWER_PERMISSIVE.decode(b"AbC").map_err(|error| error.to_string()));
    Ok(())
}
