//! Percent-encoding of URLs.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const PATH: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'?').add(b'/');

pub fn run() -> crate_uses::Result {
    let text = "a b/c?d=\"ü\"#~1%";
    let (path, all) = (utf8_percent_encode(text, PATH).to_string(), utf8_percent_encode(text, NON_ALPHANUMERIC).to_string());
    println!("{path}\n{all}");
    crate_uses::ensure(percent_decode_str(&all).decode_utf8()? == text, "another value")?;
    println!("{:?}", percent_decode_str("%4g%zz%41%").decode_utf8_lossy());
    println!("{:?}", percent_decode_str("%ff%fe").decode_utf8().map_err(|error| error.to_string()));
    println!("{}", percent_encoding::percent_encode(&[0, 127, 200, b'a'], CONTROLS));
    Ok(())
}
