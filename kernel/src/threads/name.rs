//! The name of a thread.

/// Maximum length of a name in bytes.
pub(crate) const MAX_LEN: usize = 31;

/// A thread's name; empty if it has none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    bytes: [u8; MAX_LEN],
    len: u8,
}

impl Name {
    /// The empty name.
    pub(super) const NONE: Self = Self { bytes: [0; MAX_LEN], len: 0 };

    /// Creates a name from the longest prefix of `bytes` that is valid UTF-8 and has at most [`MAX_LEN`]
    /// bytes.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let bytes = bytes.get(..MAX_LEN).unwrap_or(bytes);
        let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let mut name = Self::NONE;
        for (to, from) in name.bytes.iter_mut().zip(text.bytes()) {
            *to = from;
            name.len += 1;
        }
        name
    }

    /// Returns the name as text, if it is not empty.
    pub(crate) fn text(&self) -> Option<&str> {
        let text = str::from_utf8(self.bytes.get(..self.len.into())?).ok()?;
        (!text.is_empty()).then_some(text)
    }
}
