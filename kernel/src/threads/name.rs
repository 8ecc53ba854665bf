//! The name of a thread.

/// Longest name, in bytes.
pub(crate) const MAX_LEN: usize = 31;

/// A name; empty where there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    bytes: [u8; MAX_LEN],
    len: u8,
}

impl Name {
    /// No name.
    pub(super) const NONE: Self = Self { bytes: [0; MAX_LEN], len: 0 };

    /// The name that the bytes begin with: as many whole characters as there are and have room.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let bytes = bytes.get(..MAX_LEN).unwrap_or(bytes);
        let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let mut name = Self::NONE;
        for (place, byte) in name.bytes.iter_mut().zip(text.bytes()) {
            *place = byte;
            name.len += 1;
        }
        name
    }

    /// The name, if it is not empty.
    pub(crate) fn text(&self) -> Option<&str> {
        let text = str::from_utf8(self.bytes.get(..self.len.into())?).ok()?;
        (!text.is_empty()).then_some(text)
    }
}
