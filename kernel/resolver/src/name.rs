//! Domain names in the format of messages: labels with their lengths, and the root (RFC 1035 §3.1).

use core::fmt;

/// Maximum length of a name in bytes, with the root (RFC 1035 §2.3.4).
const MAX_LEN: usize = 255;

/// Maximum length of a label in bytes.
const MAX_LABEL_LEN: usize = 63;

/// Maximum number of pointers in a compressed name. A name has at most 127 labels, and a pointer is useful
/// only before a label.
const MAX_POINTERS: usize = 127;

/// Bits that distinguish a pointer from the length of a label (RFC 1035 §4.1.4).
const POINTER: u8 = 0xc0;

/// A complete domain name. Comparison ignores the case of ASCII letters (RFC 4343).
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl Name {
    const EMPTY: Self = Self { bytes: [0; MAX_LEN], len: 0 };

    /// Parses text: labels that are separated by dots, with or without a dot at the end.
    ///
    /// Returns `None` if a label is empty or has more than 63 bytes, the name is too long or the root, or a
    /// byte is a space or a control character.
    #[must_use]
    pub fn from_text(text: &[u8]) -> Option<Self> {
        let text = text.strip_suffix(b".").unwrap_or(text);
        let mut name = Self::EMPTY;
        for label in text.split(|&byte| byte == b'.') {
            let is_valid = !label.is_empty() && label.iter().all(|&byte| byte > b' ' && byte != 0x7f);
            is_valid.then(|| name.push_label(label))??;
        }
        name.push(&[0])?;
        Some(name)
    }

    /// Reads a name in a message. The name may be compressed. Also returns the offset of the byte after the
    /// name.
    ///
    /// A pointer must refer to an earlier byte than the part that contains it, so that pointers do not form a
    /// loop. Reading takes at most 255 bytes and 127 pointers.
    #[must_use]
    pub fn read(message: &[u8], offset: usize) -> Option<(Self, usize)> {
        let mut name = Self::EMPTY;
        let (mut position, mut part_start, mut end, mut pointers) = (offset, offset, None, 0);
        loop {
            let first = *message.get(position)?;
            position += 1;
            match first & POINTER {
                0 if first == 0 => {
                    name.push(&[0])?;
                    return Some((name, end.unwrap_or(position)));
                }
                0 => {
                    let next = position + usize::from(first);
                    name.push_label(message.get(position..next)?)?;
                    position = next;
                }
                POINTER => {
                    let target = u16::from_be_bytes([first & !POINTER, *message.get(position)?]).into();
                    end.get_or_insert(position + 1);
                    pointers += 1;
                    let is_valid = target < part_start && pointers <= MAX_POINTERS;
                    is_valid.then(|| (position, part_start) = (target, target))?;
                }
                // The other two values have never been in use (RFC 6891 §5).
                _ => return None,
            }
        }
    }

    /// Appends another name to this name. Returns `None` if the result is too long.
    #[must_use]
    pub fn below(&self, parent: &Self) -> Option<Self> {
        let mut name = Self { len: self.len.checked_sub(1)?, ..*self };
        name.push(parent.bytes())?;
        Some(name)
    }

    /// The name as it is in a message, without compression.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Labels of the name, without the root.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes();
        core::iter::from_fn(move || {
            let (&len, after) = rest.split_first()?;
            let (label, after) = after.split_at_checked(len.into()).filter(|_| len > 0)?;
            rest = after;
            Some(label)
        })
    }

    fn push_label(&mut self, label: &[u8]) -> Option<()> {
        let len = u8::try_from(label.len()).ok().filter(|&len| usize::from(len) <= MAX_LABEL_LEN)?;
        self.push(&[len])?;
        self.push(label)
    }

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.bytes.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        // The lengths of labels are smaller than the codes of letters, so they are compared exactly.
        self.bytes().eq_ignore_ascii_case(other.bytes())
    }
}

impl Eq for Name {}

impl fmt::Debug for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.labels().try_for_each(|label| write!(out, "{}.", label.escape_ascii()))
    }
}

#[cfg(test)]
mod tests {
    use super::Name;
    use proptest::prelude::*;
    use std::format;
    use std::vec::Vec;

    fn name(text: &str) -> Name {
        Name::from_text(text.as_bytes()).unwrap()
    }

    #[test]
    fn text_becomes_labels() {
        assert_eq!(name("www.Example.org").bytes(), b"\x03www\x07Example\x03org\0");
        assert_eq!(name("a.").bytes(), b"\x01a\0");
        assert_eq!(format!("{:?}", name("a.b")), "a.b.");
    }

    #[test]
    fn case_of_letters_is_ignored() {
        assert_eq!(name("EXAMPLE.org"), name("example.ORG."));
        assert_ne!(name("example.org"), name("example.com"));
    }

    #[test]
    fn invalid_text_is_refused() {
        let (long, longest) = ("a".repeat(64), "a".repeat(63));
        for text in ["", ".", "a..b", ".a", "a..", "a b", "a\tb", "a\0", &long] {
            assert_eq!(Name::from_text(text.as_bytes()), None, "{text:?}");
        }
        assert!(Name::from_text(longest.as_bytes()).is_some());
        let limit = format!("{longest}.{longest}.{longest}.{}", "a".repeat(61));
        assert_eq!((limit.len(), name(&limit).bytes().len()), (253, 255));
        assert_eq!(Name::from_text(format!("{limit}a").as_bytes()), None);
    }

    #[test]
    fn compressed_name_is_read() {
        let message = b"\x03org\0\x01b\xc0\x00\x01a\xc0\x05!";
        assert_eq!(Name::read(message, 9), Some((name("a.b.org"), 13)));
        assert_eq!(Name::read(message, 5), Some((name("b.org"), 9)));
    }

    #[test]
    fn pointer_loops_and_forward_pointers_are_refused() {
        assert_eq!(Name::read(b"\xc0\x00", 0), None);
        assert_eq!(Name::read(b"\x01a\xc0\x00", 0), None);
        assert_eq!(Name::read(b"\xc0\x02\xc0\x00", 0), None);
        assert_eq!(Name::read(b"\xc0\x02\x01a\0", 0), None);
        // A part that starts before the pointer's part, but runs into it again.
        assert_eq!(Name::read(b"\x01a\x01b\xc0\x00", 2), None);
    }

    #[test]
    fn truncated_names_and_reserved_types_are_refused() {
        for message in [&b""[..], b"\x01", b"\x01a", b"\xc0", b"\x40a\0", b"\x80a\0"] {
            assert_eq!(Name::read(message, 0), None, "{message:?}");
        }
    }

    /// A message of the root and so many pointers, each to the one before it; the offset of the last one.
    fn pointers(count: u16) -> (Vec<u8>, usize) {
        let mut message = Vec::from([0, 0]);
        message.extend((0..count).flat_map(|index| (0xc000 | (index * 2)).to_be_bytes()));
        (message, usize::from(count) * 2)
    }

    #[test]
    fn number_of_pointers_is_limited() {
        let (message, last) = pointers(127);
        assert_eq!(Name::read(&message, last).map(|(_, end)| end), Some(last + 2));
        let (message, last) = pointers(128);
        assert_eq!(Name::read(&message, last), None);
    }

    #[test]
    fn name_below_another_one() {
        assert_eq!(name("host").below(&name("corp.test")), Some(name("host.corp.test")));
        let limit = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "a".repeat(60));
        assert_eq!(name("b").below(&name(&limit)), None);
    }

    proptest! {
        #[test]
        fn reading_ends_and_stays_in_the_message(message: Vec<u8>, offset in 0_usize..40) {
            if let Some((name, end)) = Name::read(&message, offset) {
                prop_assert!(name.bytes().len() <= 255 && end <= message.len() && end > offset);
                prop_assert_eq!(Name::read(name.bytes(), 0), Some((name, name.bytes().len())));
            }
        }

        #[test]
        fn text_is_read_back(labels in prop::collection::vec("[a-z0-9_-]{1,20}", 1..10)) {
            let name = name(&labels.join("."));
            prop_assert_eq!(Name::read(name.bytes(), 0), Some((name, name.bytes().len())));
            prop_assert!(name.labels().eq(labels.iter().map(|label| label.as_bytes())));
        }
    }
}
