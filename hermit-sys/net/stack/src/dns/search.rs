//! The search list: domains that complete names.

use core::ops::Deref;

use heapless::Vec;
use hermit_interface::net::MAX_SEARCH_LEN;

/// A search list in the format of DNS messages, which may be compressed within the list (RFC 3397). A domain
/// that does not fit is left out. An encoded part that does not fit is truncated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Search(Vec<u8, MAX_SEARCH_LEN>);

impl Deref for Search {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Search {
    /// Adds a part of a list in the same format.
    pub(crate) fn push_encoded(&mut self, part: &[u8]) {
        let room = self.0.capacity() - self.0.len();
        // Cannot fail: the slice is no longer than the room.
        let _ = self.0.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    /// Adds a domain as a sequence of labels.
    pub(crate) fn push_domain(&mut self, domain: &str) {
        let labels = || domain.split('.').filter(|label| !label.is_empty());
        let length = labels().map(|label| label.len() + 1).sum::<usize>() + 1;
        if length == 1 || length > self.0.capacity() - self.0.len() {
            return;
        }
        for label in labels() {
            self.push_encoded(&[u8::try_from(label.len()).unwrap_or(u8::MAX)]);
            self.push_encoded(label.as_bytes());
        }
        self.push_encoded(&[0]);
    }

    /// Adds the domain of a lease (RFC 2132, section 3.17). Some servers terminate it with a zero.
    pub(crate) fn push_text(&mut self, domain: &[u8]) {
        let domain = domain.split(|&byte| byte == 0).next().unwrap_or_default();
        if let Ok(domain) = core::str::from_utf8(domain) {
            self.push_domain(domain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Search;
    use hermit_interface::net::MAX_SEARCH_LEN;

    #[test]
    fn domains_are_labels_with_their_lengths() {
        let mut search = Search::default();
        search.push_domain("corp.test.");
        search.push_text(b"x\0y");
        search.push_text(b"\xff");
        search.push_domain("");
        assert_eq!(*search, *b"\x04corp\x04test\0\x01x\0");
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let mut search = Search::default();
        search.push_encoded(&[1; MAX_SEARCH_LEN - 3]);
        search.push_domain("ab");
        assert_eq!(search.len(), MAX_SEARCH_LEN - 3);
        search.push_domain("a");
        assert_eq!(search[MAX_SEARCH_LEN - 3..], *b"\x01a\0");
        search.push_encoded(b"\0");
        assert_eq!(search.len(), MAX_SEARCH_LEN);
    }
}
