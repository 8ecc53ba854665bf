//! Table of flows, indexed by tokens.

use std::collections::VecDeque;

use crate::host::Token;

/// Maximum generation. It leaves the upper two bits of tokens free for the host.
const MAX_GENERATION: u32 = (1 << 30) - 1;

/// Number of entries that a queue may have in addition to two for each flow, before the stale ones are
/// removed.
const MAX_STALE: usize = 64;

/// Removes stale entries, whose flows have ended, from a queue that is more than twice as long as `flows`,
/// the number of flows. So the queue stays bounded even if a guest opens and ends flows but never takes
/// frames.
pub(crate) fn remove_stale<E>(queue: &mut VecDeque<E>, flows: usize, is_live: impl FnMut(&E) -> bool) {
    if queue.len() > 2 * flows + MAX_STALE {
        queue.retain(is_live);
    }
}

/// Table whose entries have tokens. A token is valid until its entry is removed.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    limit: usize,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    /// Creates a table for at most `limit` entries.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { entries: Vec::new(), free: Vec::new(), limit }
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Returns the token that the next inserted entry will get; `None` if the table is full.
    pub(crate) fn next(&self) -> Option<Token> {
        let index = match self.free.last() {
            Some(&index) => index,
            None if self.entries.len() < self.limit => u32::try_from(self.entries.len()).ok()?,
            None => return None,
        };
        let generation = self.entries.get(index as usize).map_or(0, |entry| entry.generation);
        Some(Token { index, generation })
    }

    /// Adds an entry. Returns its token, or `None` if the table is full.
    pub(crate) fn insert(&mut self, value: T) -> Option<Token> {
        let token = self.next()?;
        self.free.pop();
        match self.entries.get_mut(token.index as usize) {
            Some(entry) => entry.value = Some(value),
            None => self.entries.push(Entry { generation: 0, value: Some(value) }),
        }
        Some(token)
    }

    pub(crate) fn get(&self, token: Token) -> Option<&T> {
        let entry = self.entries.get(token.index as usize)?;
        entry.value.as_ref().filter(|_| entry.generation == token.generation)
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let entry = self.entries.get_mut(token.index as usize)?;
        entry.value.as_mut().filter(|_| entry.generation == token.generation)
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<T> {
        let entry = self.entries.get_mut(token.index as usize)?;
        if entry.generation != token.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1) & MAX_GENERATION;
        self.free.push(token.index);
        Some(value)
    }

    /// Returns all entries and their tokens.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        (0..).zip(&self.entries).filter_map(|(index, entry)| {
            let token = Token { index, generation: entry.generation };
            entry.value.as_ref().map(|value| (token, value))
        })
    }

    /// Returns the tokens of all entries for which `predicate` holds.
    pub(crate) fn tokens(&self, predicate: impl Fn(&T) -> bool) -> Vec<Token> {
        self.iter().filter(|(_, value)| predicate(value)).map(|(token, _)| token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

    #[test]
    fn token_is_invalid_after_its_entry_was_removed() {
        let mut slab = Slab::new(2);
        let (a, b) = (slab.insert('a').unwrap(), slab.insert('b').unwrap());
        assert!(slab.insert('c').is_none() && slab.next().is_none());
        assert_eq!(slab.remove(a), Some('a'));
        let c = slab.insert('c').unwrap();
        assert_eq!((c.index, slab.len()), (a.index, 2));
        assert_eq!((slab.get(a), slab.get(b), slab.get(c)), (None, Some(&'b'), Some(&'c')));
        assert_eq!((slab.remove(a), slab.get_mut(a)), (None, None));
        assert_eq!(slab.tokens(|&value| value == 'c'), [c]);
    }
}
