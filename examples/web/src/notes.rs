//! Notes and their numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Maximum number of notes.
const MAX_NOTES: usize = 10_000;

/// A note as sent by a client.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) text: String,
}

/// A note as sent to a client.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) number: u64,
    pub(crate) text: String,
}

/// All notes, by number.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    texts: BTreeMap<u64, String>,
    last: u64,
}

impl Notes {
    /// Adds a note. Returns `None` if there are [`MAX_NOTES`] notes already.
    pub(crate) fn add(&mut self, draft: Draft) -> Option<Note> {
        if self.texts.len() >= MAX_NOTES {
            return None;
        }
        self.last += 1;
        self.texts.insert(self.last, draft.text);
        self.get(self.last)
    }

    pub(crate) fn get(&self, number: u64) -> Option<Note> {
        self.texts.get(&number).map(|text| Note { number, text: text.clone() })
    }

    /// Replaces the text of a note. Returns `None` if the note does not exist.
    pub(crate) fn change(&mut self, number: u64, draft: Draft) -> Option<Note> {
        *self.texts.get_mut(&number)? = draft.text;
        self.get(number)
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Note> {
        self.texts.remove(&number).map(|text| Note { number, text })
    }

    /// Returns the notes that contain `part`, the oldest first.
    pub(crate) fn containing(&self, part: &str) -> Vec<Note> {
        let found = self.texts.iter().filter(|(_, text)| text.contains(part));
        found.map(|(number, text)| Note { number: *number, text: text.clone() }).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.texts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Draft, MAX_NOTES, Notes};

    fn draft(text: &str) -> Draft {
        Draft { text: text.to_owned() }
    }

    #[test]
    fn numbers_are_not_reused() {
        let mut notes = Notes::default();
        assert_eq!(notes.add(draft("one")).unwrap().number, 1);
        assert_eq!(notes.remove(1).unwrap().text, "one");
        assert_eq!(notes.add(draft("two")).unwrap().number, 2);
        assert_eq!(notes.change(2, draft("too")).unwrap().text, "too");
        assert_eq!((notes.get(1), notes.change(1, draft("x")), notes.remove(1)), (None, None, None));
        assert_eq!(notes.containing("oo").len(), 1);
    }

    #[test]
    fn number_of_notes_is_limited() {
        let mut notes = Notes::default();
        assert!((0..MAX_NOTES).all(|_| notes.add(draft("")).is_some()));
        assert_eq!((notes.add(draft("")), notes.count()), (None, MAX_NOTES));
    }
}
