//! Headers that extend the next entry: pax headers, and long names of GNU tar.

use super::TarReason;
use super::header::{Header, Timestamp, text};

/// Properties of the next entry that extended headers set.
#[derive(Debug, Default)]
pub(super) struct Extensions<'a> {
    pub(super) path: Option<&'a [u8]>,
    pub(super) link_name: Option<&'a [u8]>,
    pub(super) size: Option<u64>,
    pub(super) modified: Option<Timestamp>,
}

impl<'a> Extensions<'a> {
    /// Adds a header's data. Returns true if the header extends the next entry, and false if it is itself an
    /// entry.
    pub(super) fn extend(&mut self, header: &Header, data: &'a [u8]) -> Result<bool, TarReason> {
        match header.type_flag {
            b'x' => self.add_records(data)?,
            b'L' => self.path = Some(text(data)),
            b'K' => self.link_name = Some(text(data)),
            // A global header for all following entries. It is ignored: it has comments, and defaults that
            // are useless for paths and sizes.
            b'g' => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Size of the data that follow a header, in bytes: only files and extensions have data.
    pub(super) fn data_size(&self, header: &Header) -> Result<u64, TarReason> {
        match header.type_flag {
            b'1'..=b'6' => Ok(0),
            b'x' | b'g' | b'L' | b'K' => header.size(),
            _ => self.size.map_or_else(|| header.size(), Ok),
        }
    }

    /// Adds the records of a pax header.
    fn add_records(&mut self, data: &'a [u8]) -> Result<(), TarReason> {
        let mut rest = data;
        while !rest.is_empty() {
            let (key, value, after) = record(rest).ok_or(TarReason::Record)?;
            rest = after;
            match key {
                b"path" => self.path = Some(value),
                b"linkpath" => self.link_name = Some(value),
                b"size" => self.size = Some(decimal(value).ok_or(TarReason::Record)?),
                b"mtime" => self.modified = Some(timestamp(value).ok_or(TarReason::Record)?),
                _ if key.starts_with(b"GNU.sparse.") => return Err(TarReason::Sparse),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Splits the first record off: its length in bytes as decimal digits, a blank, key, `=`, value, and a
/// newline.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = bytes.iter().position(|byte| *byte == b' ')?;
    let length = usize::try_from(decimal(bytes.get(..blank)?)?).ok()?;
    let (record, rest) = bytes.split_at_checked(length)?;
    let text = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|byte| *byte == b'=')?;
    Some((text.get(..equals)?, text.get(equals + 1..)?, rest))
}

/// A decimal number without sign.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| match byte {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// A time: seconds since 1970 as a decimal number, perhaps with a sign and a fraction.
fn timestamp(text: &[u8]) -> Option<Timestamp> {
    let (is_negative, digits) = text.strip_prefix(b"-").map_or((false, text), |digits| (true, digits));
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let seconds = i64::try_from(decimal(parts.next()?)?).ok()?;
    let nanoseconds = parts.next().map_or(Some(0), fraction)?;
    Some(match (is_negative, nanoseconds) {
        (false, _) => Timestamp { seconds, nanoseconds },
        (true, 0) => Timestamp { seconds: -seconds, nanoseconds },
        // The seconds are rounded down, so the nanoseconds count from the earlier second.
        (true, _) => Timestamp { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
    })
}

/// Digits after a decimal point, in nanoseconds.
fn fraction(digits: &[u8]) -> Option<u32> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let padded = digits.iter().chain(&[b'0'; 9]).take(9);
    Some(padded.fold(0, |number, byte| number * 10 + u32::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::{Timestamp, record, timestamp};

    #[test]
    fn times_have_signs_and_fractions() {
        for (text, expected) in [
            ("0", Some((0, 0))),
            ("12.5", Some((12, 500_000_000))),
            ("12.", Some((12, 0))),
            ("1.1234567899", Some((1, 123_456_789))),
            ("-1", Some((-1, 0))),
            ("-1.25", Some((-2, 750_000_000))),
            ("", None),
            ("-", None),
            ("1.x", None),
            ("9223372036854775808", None),
        ] {
            let expected = expected.map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds });
            assert_eq!(timestamp(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn records_have_the_length_that_they_begin_with() {
        assert_eq!(record(b"9 path=a\nrest"), Some((&b"path"[..], &b"a"[..], &b"rest"[..])));
        for text in [
            "",
            "9",
            "9 path=a",
            "8 path=a\n",
            "x path=a\n",
            "2 \n",
            "0 a=b\n",
            " a=b\n",
            "99 a=b\n",
            "1 =\n",
        ] {
            assert_eq!(record(text.as_bytes()), None, "{text}");
        }
    }
}
