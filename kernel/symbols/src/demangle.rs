//! Names as they are in the source, from names as the linker knows them.
//!
//! There are two ways in which rustc makes them: the older `_ZN..E`, which C++ shares, and "v0" (`_R..`, RFC 2603).
//! Generic arguments are left out: in a backtrace they hide more than they say, and printing them all (as the crate
//! rustc-demangle does) makes every image a third larger.

mod legacy;
mod v0;

use core::fmt;

/// A name that is shown as it is in the source, or as it is if it is none that rustc makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demangled<'a>(pub(crate) &'a str);

impl fmt::Display for Demangled<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first pass finds out whether the name is valid, for nothing can be taken back.
        if v0::write(self.0, &mut Nothing).is_some() {
            return v0::write(self.0, out).ok_or(fmt::Error);
        }
        if legacy::write(self.0, &mut Nothing).is_some() {
            return legacy::write(self.0, out).ok_or(fmt::Error);
        }
        out.write_str(self.0)
    }
}

/// Forgets what is written.
struct Nothing;

impl fmt::Write for Nothing {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

/// Takes the decimal number at the start of `text`. Nothing follows a leading zero.
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
