//! Header of an entry: a block of 512 bytes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::TarReason;

/// Size of a block in bytes; headers and data begin at a multiple of it.
pub(super) const BLOCK_SIZE: usize = 512;

/// Header of an entry (POSIX.1-2017, `pax`, "ustar Header Block").
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    name: [u8; 100],
    mode: [u8; 8],
    _owner: [u8; 16],
    size: [u8; 12],
    mtime: [u8; 12],
    checksum: [u8; 8],
    pub(super) type_flag: u8,
    link_name: [u8; 100],
    magic: [u8; 6],
    _unused: [u8; 82],
    prefix: [u8; 155],
    _padding: [u8; 12],
}

/// Magic number of the format in which `prefix` is the start of the path. GNU's format has other fields at
/// this place.
const USTAR: [u8; 6] = *b"ustar\0";

/// Bit of the first byte of a number in base 256.
const BASE_256: u8 = 0x80;

/// A time, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// Seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds of the second, below 10^9.
    pub nanoseconds: u32,
}

impl Header {
    /// Returns the header at the start of `bytes`, or `None` if there are too few bytes.
    pub(super) fn at_start(bytes: &[u8]) -> Option<&Self> {
        Self::ref_from_prefix(bytes).ok().map(|(header, _)| header)
    }

    /// Returns true if all bytes of the block are zero. Such a block ends an archive.
    pub(super) fn is_zero(&self) -> bool {
        self.as_bytes().iter().all(|byte| *byte == 0)
    }

    /// Returns true if the checksum is right. The checksum is the sum of all bytes of the header, where
    /// blanks stand for the bytes of the checksum itself. Old programs add signed bytes, so this sum is
    /// accepted, too.
    pub(super) fn has_checksum(&self) -> bool {
        let Ok(expected) = number(&self.checksum) else { return false };
        let sum = |value: fn(u8) -> i64| {
            let sum = |bytes: &[u8]| bytes.iter().map(|byte| value(*byte)).sum::<i64>();
            sum(self.as_bytes()) - sum(&self.checksum) + sum(&[b' '; 8])
        };
        expected == sum(i64::from) || expected == sum(|byte| i64::from(byte.cast_signed()))
    }

    /// Size that the header states, in bytes.
    pub(super) fn size(&self) -> Result<u64, TarReason> {
        u64::try_from(number(&self.size)?).map_err(|_| TarReason::Number)
    }

    /// Permission bits.
    pub(super) fn permissions(&self) -> Result<u32, TarReason> {
        u32::try_from(number(&self.mode)? & 0o7777).map_err(|_| TarReason::Number)
    }

    /// Time of the last change.
    pub(super) fn mtime(&self) -> Result<Timestamp, TarReason> {
        Ok(Timestamp { seconds: number(&self.mtime)?, nanoseconds: 0 })
    }

    /// The path, in two parts.
    pub(super) fn path(&self) -> [&[u8]; 2] {
        let prefix = if self.magic == USTAR { text(&self.prefix) } else { &[] };
        [prefix, text(&self.name)]
    }

    /// The target of a link.
    pub(super) fn link_name(&self) -> &[u8] {
        text(&self.link_name)
    }
}

/// Returns the bytes before the first zero byte.
pub(super) fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Reads a number: octal digits between blanks and zero bytes, or base 256, in which GNU tar writes large and
/// negative numbers.
fn number(field: &[u8]) -> Result<i64, TarReason> {
    match field {
        [first, rest @ ..] if first & BASE_256 != 0 => base_256(first & !BASE_256, rest),
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Result<i64, TarReason> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | 0);
    let mut digits = field.iter().skip_while(|byte| is_blank(byte)).take_while(|byte| !is_blank(byte));
    digits
        .try_fold(0_i64, |number, byte| match byte {
            b'0'..=b'7' => number.checked_mul(8)?.checked_add(i64::from(byte - b'0')),
            _ => None,
        })
        .ok_or(TarReason::Number)
}

/// Reads a number in two's complement. Its first byte has only seven bits.
fn base_256(first: u8, rest: &[u8]) -> Result<i64, TarReason> {
    let is_negative = first & 0x40 != 0;
    let first = i64::from(first) - if is_negative { 0x80 } else { 0 };
    rest.iter()
        .try_fold(first, |number, byte| number.checked_mul(256)?.checked_add(i64::from(*byte)))
        .ok_or(TarReason::Number)
}

#[cfg(test)]
mod tests {
    use super::{Header, TarReason, number, text};

    #[test]
    fn header_is_a_block() {
        assert_eq!(size_of::<Header>(), super::BLOCK_SIZE);
    }

    #[test]
    fn numbers_are_octal_or_in_base_256() {
        for (field, expected) in [
            (&b"0000644\0"[..], Ok(0o644)),
            (b" 644 \0  ", Ok(0o644)),
            (b"77777777777\0", Ok(0o77_777_777_777)),
            (b"\0\0\0\0", Ok(0)),
            (b"64x\0", Err(TarReason::Number)),
            (b"0000689\0", Err(TarReason::Number)),
            (b"\x80\0\0\0\0\0\0\x02\0\0\0\0", Ok(1 << 33)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", Ok(-2)),
            (b"\x80\x01\0\0\0\0\0\0\0\0\0\0", Err(TarReason::Number)),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", Err(TarReason::Number)),
        ] {
            assert_eq!(number(field), expected, "{field:?}");
        }
    }

    #[test]
    fn text_ends_with_a_zero_byte_or_the_field() {
        assert_eq!(
            (text(b"ab\0c"), text(b"abc"), text(b"\0"), text(b"")),
            (&b"ab"[..], &b"abc"[..], &[][..], &[][..])
        );
    }
}
