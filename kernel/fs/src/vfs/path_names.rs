//! Splits a path into the directory and the last name, a word at a time: most paths are short, and a call of
//! `memchr` would take longer.

use hermit_interface::MAX_NAME;

/// Size of a word in bytes.
const WORD: usize = size_of::<u64>();

/// The least significant bit of each byte of a word.
const ONES: u64 = u64::from_ne_bytes([1; WORD]);

/// The most significant bit of each byte of a word.
const TOPS: u64 = ONES << 7;

/// Eight slashes.
const SLASHES: u64 = u64::from_ne_bytes([b'/'; WORD]);

/// Directory of the last name of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directory<'a> {
    /// The directory at which the path begins: the path has only one name.
    Start,
    /// The root: the only slash is before the name.
    Root,
    /// The directory at this path.
    Path(&'a [u8]),
}

/// Returns true if a directory can have an entry with a name.
pub(super) const fn is_proper(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..")
}

/// Splits a path into the directory and the last name. Returns `None` if the last name is not the name of an
/// entry, is too long, or has a zero byte.
#[inline]
pub(super) fn split_last(path: &[u8]) -> Option<(Directory<'_>, &[u8])> {
    let (directory, name) = match last_slash(path) {
        None => (Directory::Start, path),
        Some(0) => (Directory::Root, path.get(1..)?),
        Some(slash) => (Directory::Path(path.get(..slash)?), path.get(slash + 1..)?),
    };
    (is_proper(name) && name.len() <= MAX_NAME && !has_zero(name)).then_some((directory, name))
}

/// Returns true if a name has a zero byte.
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

/// Returns the position of the last slash.
#[inline]
pub(super) fn last_slash(path: &[u8]) -> Option<usize> {
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

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{Directory, has_zero, last_slash, split_last};
    use proptest::prelude::*;

    #[test]
    fn last_name_is_split_off_its_directory() {
        for (path, directory, name) in [
            (&b"/a/b"[..], Directory::Path(b"/a"), &b"b"[..]),
            (b"a/b", Directory::Path(b"a"), b"b"),
            (b"/a//b", Directory::Path(b"/a/"), b"b"),
            (b"/a", Directory::Root, b"a"),
            (b"a", Directory::Start, b"a"),
            (b"...", Directory::Start, b"..."),
            (&[b'x'; 255], Directory::Start, &[b'x'; 255]),
        ] {
            assert_eq!(split_last(path), Some((directory, name)));
        }
        for path in [&b""[..], b"/", b"/a/", b"a/.", b"/..", &[b'x'; 256], b"/a\0", b"longer than a word\0"] {
            assert_eq!(split_last(path), None, "{}", path.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn slashes_and_zeros_are_found_at_any_position(
            path in prop::collection::vec(
                prop_oneof![Just(b'/'), Just(b'.'), Just(0), any::<u8>(), 0x20..0x80_u8], 0..40
            )
        ) {
            prop_assert_eq!(last_slash(&path), path.iter().rposition(|byte| *byte == b'/'));
            prop_assert_eq!(has_zero(&path), path.contains(&0));
        }
    }
}
