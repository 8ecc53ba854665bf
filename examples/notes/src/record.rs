//! Records of the log: a header, the key, and the text unless the record removes the note.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0..4 | CRC-32 of all that follows |
//! | 4..8 | size of the key |
//! | 8..12 | size of the text; `0xffff_ffff`: the note is removed |
//!
//! Numbers are little-endian.

use std::io::{self, ErrorKind, Read};

/// Size of a header in bytes.
pub(crate) const HEADER_SIZE: usize = 12;

/// Maximum size of a key or a text in bytes.
pub(crate) const MAX_SIZE: u32 = 16 << 20;

/// Value in place of the text's size in a record that removes the note.
const REMOVED: u32 = u32::MAX;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: String,
    /// New text of the note. `None` removes the note.
    pub(crate) text: Option<String>,
}

impl Record {
    /// Returns the number of bytes that the record has in the log.
    pub(crate) fn size(&self) -> u64 {
        let size = HEADER_SIZE + self.key.len() + self.text.as_ref().map_or(0, String::len);
        u64::try_from(size).unwrap_or(u64::MAX)
    }

    /// Returns the bytes of the record for the log.
    ///
    /// # Errors
    ///
    /// Fails if the key or the text is larger than [`MAX_SIZE`].
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let text = self.text.as_deref().unwrap_or_default();
        let text_size = if self.text.is_some() { checked_size(text)? } else { REMOVED };
        let fields = [checked_size(&self.key)?.to_le_bytes(), text_size.to_le_bytes()].concat();
        let contents = [&fields, self.key.as_bytes(), text.as_bytes()].concat();
        let checksum = crc32fast::hash(&contents).to_le_bytes();
        Ok([&checksum, contents.as_slice()].concat())
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// Fails with `UnexpectedEof` if the log ends within the record, with `InvalidData` if the record is
    /// damaged, or with the error of the read.
    pub(crate) fn read(log: &mut impl Read) -> io::Result<Self> {
        let mut header = [0; HEADER_SIZE];
        log.read_exact(&mut header)?;
        let [checksum, key_size, text_size] = numbers(header);
        let is_removed = text_size == REMOVED;
        let text_size = if is_removed { 0 } else { text_size };
        if key_size > MAX_SIZE || text_size > MAX_SIZE {
            return Err(damaged());
        }
        let (key, text) = (read_bytes(log, key_size)?, read_bytes(log, text_size)?);
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(header.split_at(4).1);
        hasher.update(&key);
        hasher.update(&text);
        if hasher.finalize() != checksum {
            return Err(damaged());
        }
        let utf8 = |bytes| String::from_utf8(bytes).map_err(|_| damaged());
        Ok(Self { key: utf8(key)?, text: if is_removed { None } else { Some(utf8(text)?) } })
    }
}

/// Returns the three numbers of a header.
fn numbers(header: [u8; HEADER_SIZE]) -> [u32; 3] {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = header;
    [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_le_bytes)
}

fn checked_size(text: &str) -> io::Result<u32> {
    u32::try_from(text.len())
        .ok()
        .filter(|size| *size <= MAX_SIZE)
        .ok_or_else(|| io::Error::new(ErrorKind::FileTooLarge, "a key or text of more than 16 MiB"))
}

/// Reads exactly `size` bytes. Allocates only as much as the log really contains, even if a damaged `size` is
/// larger.
fn read_bytes(log: &mut impl Read, size: u32) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let count = log.take(size.into()).read_to_end(&mut bytes)?;
    if u32::try_from(count) == Ok(size) { Ok(bytes) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

fn damaged() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the record is damaged")
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use proptest::prelude::*;

    use super::{HEADER_SIZE, MAX_SIZE, Record};

    fn record() -> impl Strategy<Value = Record> {
        (".{0,20}", proptest::option::of(".{0,100}")).prop_map(|(key, text)| Record { key, text })
    }

    proptest! {
        #[test]
        fn read_returns_what_was_encoded(record in record()) {
            let bytes = record.encode().unwrap();
            prop_assert_eq!(u64::try_from(bytes.len()).unwrap(), record.size());
            prop_assert_eq!(Record::read(&mut bytes.as_slice()).unwrap(), record);
        }

        #[test]
        fn every_cut_and_flipped_bit_is_noticed(record in record(), at: prop::sample::Index, bit in 0_u8..8) {
            let mut bytes = record.encode().unwrap();
            let at = at.index(bytes.len());
            let cut = Record::read(&mut bytes.split_at(at).0).unwrap_err();
            prop_assert_eq!(cut.kind(), ErrorKind::UnexpectedEof);
            bytes[at] ^= 1 << bit;
            prop_assert!(Record::read(&mut bytes.as_slice()).is_err());
        }
    }

    #[test]
    fn sizes_are_limited() {
        let text = "x".repeat(usize::try_from(MAX_SIZE).unwrap() + 1);
        let record = Record { key: String::new(), text: Some(text) };
        assert_eq!(record.encode().unwrap_err().kind(), ErrorKind::FileTooLarge);
        let error = Record::read(&mut [0xfe; HEADER_SIZE].as_slice()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
