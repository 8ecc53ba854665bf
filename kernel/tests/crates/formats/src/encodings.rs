//! Bytes as text.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use base64::write::EncoderStringWriter;
use data_encoding::{BASE32, BASE32HEX_NOPAD, BASE64URL, HEXLOWER_PERMISSIVE, Specification};
use hex::{FromHex, FromHexError, ToHex};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Encodes bytes in several alphabets.
pub fn base64() -> crate_uses::Result {
    for length in 0..7 {
        let bytes: Vec<u8> =
            crate_uses::numbers(length).map(|number| number as u8).take(length as usize).collect();
        let text = STANDARD.encode(&bytes);
        println!("{text} {} {}", STANDARD_NO_PAD.encode(&bytes), URL_SAFE.encode(&bytes));
        crate_uses::ensure(STANDARD.decode(&text)? == bytes, "another value")?;
    }
    for text in ["YQ", "YQ==", "Y Q=", "YR==", "===="] {
        println!("{:?}", STANDARD.decode(text).map_err(|error| error.to_string()));
    }
    let mut writer = EncoderStringWriter::new(&URL_SAFE);
    crate_uses::numbers(5).take(300).try_for_each(|number| writer.write_all(&number.to_be_bytes()))?;
    println!("{}", crate_uses::digest(writer.into_inner().as_bytes()));
    Ok(())
}

/// Encodes bytes in standard and own bases.
pub fn data_encoding() -> crate_uses::Result {
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

/// Hexadecimal digits.
pub fn hex() -> crate_uses::Result {
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

const PATH: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'?').add(b'/');

/// Percent-encoding of URLs.
pub fn percent_encoding() -> crate_uses::Result {
    let text = "a b/c?d=\"ü\"#~1%";
    let (path, all) = (
        utf8_percent_encode(text, PATH).to_string(),
        utf8_percent_encode(text, NON_ALPHANUMERIC).to_string(),
    );
    println!("{path}\n{all}");
    crate_uses::ensure(percent_decode_str(&all).decode_utf8()? == text, "another value")?;
    println!("{:?}", percent_decode_str("%4g%zz%41%").decode_utf8_lossy());
    println!("{:?}", percent_decode_str("%ff%fe").decode_utf8().map_err(|error| error.to_string()));
    println!("{}", percent_encoding::percent_encode(&[0, 127, 200, b'a'], CONTROLS));
    Ok(())
}
