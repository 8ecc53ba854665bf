//! The names of a path.

use hermit_interface::MAX_NAME;

use super::words::WORD;

/// The least significant bit of each byte of a word.
const ONES: u64 = u64::from_ne_bytes([1; WORD]);

/// The most significant bit of each byte of a word.
const TOPS: u64 = ONES << 7;

/// Eight slashes.
const SLASHES: u64 = u64::from_ne_bytes([b'/'; WORD]);

/// Returns true if a directory may have an entry with this name. The name has no slash.
pub(super) fn is_proper(name: &[u8]) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !matches!(name, b"." | b"..") && !has_zero(name)
}

/// Returns true if a name has a zero byte. Tests a word at a time as [`name_length`].
#[inline]
fn has_zero(name: &[u8]) -> bool {
    let is_in = |word: u64| word.wrapping_sub(ONES) & !word & TOPS != 0;
    match name.last_chunk::<WORD>() {
        // The last word overlaps the word before it.
        Some(end) => {
            is_in(u64::from_le_bytes(*end))
                || name.as_chunks::<WORD>().0.iter().any(|word| is_in(u64::from_le_bytes(*word)))
        }
        None => name.contains(&0),
    }
}

/// Splits a path into the path of the directory and the last name. Returns `None` if the path has only one
/// name, or ends in a slash.
#[inline]
pub(super) fn split_last(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = last_slash(path)?;
    let (directory, name) = (path.get(..slash)?, path.get(slash + 1..)?);
    (!directory.is_empty() && !name.is_empty()).then_some((directory, name))
}

/// Position of the last slash. Tests a word at a time as [`name_length`].
#[inline]
fn last_slash(path: &[u8]) -> Option<usize> {
    let mut rest = path;
    while let Some((before, word)) = rest.split_last_chunk::<WORD>() {
        let zero_at_slash = u64::from_le_bytes(*word) ^ SLASHES;
        // In each byte that is not zero, one of the two terms sets the top bit. The sum of a byte never
        // carries into the next byte.
        let others = ((zero_at_slash & !TOPS) + !TOPS) | zero_at_slash;
        let slashes = !others & TOPS;
        if let Some(bit) = slashes.checked_ilog2() {
            return Some(before.len() + bit as usize / WORD);
        }
        rest = before;
    }
    rest.iter().rposition(|byte| *byte == b'/')
}

/// The names of a path, separated by slashes. No name is empty.
#[derive(Debug)]
pub(super) struct PathNames<'a>(&'a [u8]);

impl<'a> PathNames<'a> {
    pub(super) const fn new(path: &'a [u8]) -> Self {
        Self(path)
    }
}

impl<'a> Iterator for PathNames<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let [b'/', rest @ ..] = self.0 {
            self.0 = rest;
        }
        let (name, rest) = self.0.split_at_checked(name_length(self.0))?;
        self.0 = rest;
        (!name.is_empty()).then_some(name)
    }
}

/// Returns the length of the name at the start of a path. Tests a word at a time, because most names are
/// short and a call of `memchr` would take longer.
#[inline]
fn name_length(path: &[u8]) -> usize {
    let (words, _) = path.as_chunks::<WORD>();
    for (number, word) in words.iter().enumerate() {
        if let Some(slash) = first_slash(*word) {
            return number * WORD + slash;
        }
    }
    match path.last_chunk::<WORD>() {
        // The last word overlaps bytes that were already tested and are not slashes.
        Some(word) => first_slash(*word).map_or(path.len(), |slash| path.len() - WORD + slash),
        None => path.iter().position(|byte| *byte == b'/').unwrap_or(path.len()),
    }
}

/// Position of the first slash in eight bytes.
#[inline]
fn first_slash(word: [u8; WORD]) -> Option<usize> {
    let zero_at_slash = u64::from_le_bytes(word) ^ SLASHES;
    // Sets the top bit of the first zero byte. Bytes before it do not get a top bit; later bytes do not
    // matter.
    let slashes = zero_at_slash.wrapping_sub(ONES) & !zero_at_slash & TOPS;
    (slashes != 0).then(|| slashes.trailing_zeros() as usize / WORD)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{PathNames, is_proper, last_slash, split_last};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn names_of_directories_are_proper() {
        for name in [&b"a"[..], b"...", b".a", &[b'x'; 255], b"\xff\x80"] {
            assert!(is_proper(name), "{}", name.escape_ascii());
        }
        for name in [
            &b""[..],
            b".",
            b"..",
            &[b'x'; 256],
            b"a\0",
            b"\0",
            b"\0longer than a word",
            b"longer than a word\0",
        ] {
            assert!(!is_proper(name), "{}", name.escape_ascii());
        }
    }

    #[test]
    fn last_name_is_split_off_its_directory() {
        for (path, expected) in [
            (&b"/a/b"[..], Some((&b"/a"[..], &b"b"[..]))),
            (b"a/b", Some((b"a", b"b"))),
            (b"/a//b", Some((b"/a/", b"b"))),
            (b"//b", Some((b"/", b"b"))),
        ] {
            assert_eq!(split_last(path), expected);
        }
        for path in [&b""[..], b"a", b"/a", b"/a/", b"/", b"a/"] {
            assert_eq!(split_last(path), None, "{}", path.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn last_slash_is_found_at_any_position(
            path in prop::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), any::<u8>(), 0x20..0x80_u8], 0..40)
        ) {
            prop_assert_eq!(last_slash(&path), path.iter().rposition(|byte| *byte == b'/'));
        }

        #[test]
        fn names_are_what_slashes_separate(
            path in prop::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), Just(b'0'), any::<u8>()], 0..40)
        ) {
            let names: Vec<_> = PathNames::new(&path).collect();
            let expected = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
            prop_assert_eq!(names, expected.collect::<Vec<_>>());
        }
    }
}
