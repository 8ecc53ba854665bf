//! Demangling of symbol names.
//!
//! rustc has two mangling schemes: legacy (`_ZN..E`, an Itanium mangling) and v0 (`_R..`, RFC 2603). Generic
//! arguments are omitted: they make backtraces hard to read, and printing them (as the crate rustc-demangle
//! does) makes every image a third larger.

mod legacy;
mod v0;

use core::fmt;

/// Formats a symbol name demangled, or unchanged if it is not a mangled Rust name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demangled<'a>(pub(crate) &'a str);

impl fmt::Display for Demangled<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first pass validates the name, as written text cannot be taken back.
        if v0::write(self.0, &mut Discard).is_some() {
            return v0::write(self.0, out).ok_or(fmt::Error);
        }
        if legacy::write(self.0, &mut Discard).is_some() {
            return legacy::write(self.0, out).ok_or(fmt::Error);
        }
        out.write_str(self.0)
    }
}

/// Sink that discards all output.
struct Discard;

impl fmt::Write for Discard {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

/// Takes the decimal number at the start of `text`. A leading zero is a number of its own.
fn number(text: &str) -> Option<(usize, &str)> {
    let digits = match text.bytes().next()? {
        b'0' => 1,
        _ => text.bytes().take_while(u8::is_ascii_digit).count(),
    };
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests;
