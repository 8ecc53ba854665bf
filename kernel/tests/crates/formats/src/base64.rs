//! Encodes bytes in several alphabets.

use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use base64::write::EncoderStringWriter;
use base64::Engine;
use std::io::Write;

pub fn run() -> crate_uses::Result {
    for length in 0..7 {
        let bytes: Vec<u8> = crate_uses::numbers(length).map(|number| number as u8).take(length as usize).collect();
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
