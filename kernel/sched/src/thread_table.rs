//! The table of threads by number.
//!
//! The lower bits of a thread's number are the index of its entry, plus 1. The upper bits count the lives of
//! the entry: when a thread object is reused for another thread, it gets the next number of its entry. When
//! an entry has used up its numbers, the thread object moves to an entry that was not used before. Entries
//! are used again only when all entries have been used. So a number repeats only after 2^31 lives, or earlier
//! if nearly all entries are in use.

use spin::Once;

use crate::thread::Link;

/// Bits of a number; it is positive as an `i32`.
const NUMBER_BITS: u32 = i32::BITS - 1;

/// Number of entries of the first chunk.
const FIRST_CHUNK: usize = 32;

/// Number of chunks of the largest table.
const CHUNKS: usize = 16;

/// Maximum number of entries that [`ThreadTable::enter`] reads at a time.
const MAX_READ: usize = 64;

/// Threads by number. The lower `INDEX_BITS` bits of a number are for the index, 5 to 20.
///
/// The entries are in chunks, which never move, so a thread is found without a lock. The first chunk has 32
/// entries. Each further chunk has as many entries as all chunks before it.
#[derive(Debug)]
pub struct ThreadTable<T: 'static, const INDEX_BITS: u32> {
    chunks: [Once<&'static [Link<T>]>; CHUNKS],
}

/// State that changes when a thread is entered. The user of a table protects it by a lock.
#[derive(Debug, Default)]
pub struct TableCursor {
    /// Index of the entry that is used next if it is vacant.
    next: usize,
    /// Number of entries with a thread.
    used: usize,
}

/// Why a thread was not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnterError {
    /// A chunk is missing. The caller must allocate this number of empty entries and call
    /// [`ThreadTable::add_chunk`].
    MissingChunk(usize),
    /// All entries that were read are in use. The caller must try again, after it has released its lock for a
    /// moment.
    Again,
    /// All entries are in use.
    Full,
}

/// Index of the chunk of an entry, and the index of the entry in it.
const fn position(index: usize) -> (usize, usize) {
    match (index / FIRST_CHUNK).checked_ilog2() {
        Some(chunk) => (chunk as usize + 1, index - (FIRST_CHUNK << chunk)),
        None => (0, index),
    }
}

/// Number of entries in a chunk.
const fn chunk_size(chunk: usize) -> usize {
    if chunk == 0 { FIRST_CHUNK } else { FIRST_CHUNK << (chunk - 1) }
}

impl TableCursor {
    /// The cursor of an empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: 0, used: 0 }
    }
}

impl<T, const INDEX_BITS: u32> Default for ThreadTable<T, INDEX_BITS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const INDEX_BITS: u32> ThreadTable<T, INDEX_BITS> {
    const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

    /// Maximum number of threads.
    pub const MAX_THREADS: usize = Self::INDEX_MASK as usize;

    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { chunks: [const { Once::new() }; CHUNKS] }
    }

    /// The thread in the entry of a number. It may have another number by now.
    pub fn find(&self, number: u32) -> Option<&'static T> {
        let index = (number & Self::INDEX_MASK).checked_sub(1)?;
        self.entry(index as usize)?.load()
    }

    /// The threads that are entered.
    pub fn threads(&self) -> impl Iterator<Item = &'static T> {
        (0..Self::MAX_THREADS).map_while(|index| self.entry(index)).filter_map(Link::load)
    }

    /// The number after `number` in the same entry; `None` if `number` is the last one.
    #[must_use]
    pub const fn next_number(number: u32) -> Option<u32> {
        let next = number + (1 << INDEX_BITS);
        if next >> NUMBER_BITS == 0 { Some(next) } else { None }
    }

    /// The first number of the entry of `number`.
    #[must_use]
    pub const fn first_number(number: u32) -> u32 {
        number & Self::INDEX_MASK
    }

    /// Enters a thread in a vacant entry. Returns the first number of this entry. Vacates the entry of `old`,
    /// which is the thread's last number, unless `old` is 0.
    ///
    /// # Errors
    ///
    /// See [`EnterError`]. After an error only the cursor has changed.
    pub fn enter(&self, cursor: &mut TableCursor, thread: &'static T, old: u32) -> Result<u32, EnterError> {
        if cursor.used >= Self::MAX_THREADS {
            return Err(EnterError::Full);
        }
        for _ in 0..MAX_READ {
            let index = cursor.next;
            let entry =
                self.entry(index).ok_or_else(|| EnterError::MissingChunk(chunk_size(position(index).0)))?;
            cursor.next = (index + 1) % Self::MAX_THREADS;
            if entry.load().is_none() {
                entry.store(Some(thread));
                cursor.used += 1;
                self.leave(cursor, old);
                // At most `MAX_THREADS`, which a number has bits for.
                return u32::try_from(index + 1).map_err(|_| EnterError::Full);
            }
        }
        Err(EnterError::Again)
    }

    /// Vacates the entry of a number.
    fn leave(&self, cursor: &mut TableCursor, number: u32) {
        let index = (number & Self::INDEX_MASK).checked_sub(1);
        if let Some(entry) = index.and_then(|index| self.entry(index as usize)) {
            entry.store(None);
            cursor.used -= 1;
        }
    }

    /// Adds a chunk of `size` entries, which [`Self::enter`] has reported as missing. Calls `chunk` to
    /// allocate it, unless another thread has added it meanwhile. Returns `None` if `chunk` returns `None`.
    ///
    /// A second caller spins while `chunk` runs, unless the user of the table has a lock around the calls.
    pub fn add_chunk(&self, size: usize, chunk: impl FnOnce() -> Option<&'static [Link<T>]>) -> Option<()> {
        let missing = self.chunks.iter().enumerate().find(|(_, chunk)| !chunk.is_completed());
        if let Some((_, missing)) = missing.filter(|&(index, _)| chunk_size(index) == size) {
            missing.try_call_once(|| chunk().ok_or(())).ok()?;
        }
        Some(())
    }

    fn entry(&self, index: usize) -> Option<&'static Link<T>> {
        let (chunk, offset) = position(index);
        self.chunks.get(chunk)?.get()?.get(offset)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    extern crate std;

    use super::{CHUNKS, EnterError, FIRST_CHUNK, TableCursor, ThreadTable, chunk_size, position};
    use crate::thread::Link;
    use std::boxed::Box;
    use std::collections::HashSet;
    use std::vec::Vec;

    /// A table of 31 threads.
    type Small = ThreadTable<usize, 5>;

    fn enter<const BITS: u32>(
        table: &ThreadTable<usize, BITS>,
        cursor: &mut TableCursor,
        thread: &'static usize,
        old: u32,
    ) -> Option<u32> {
        loop {
            match table.enter(cursor, thread, old) {
                Ok(number) => return Some(number),
                Err(EnterError::MissingChunk(size)) => {
                    let chunk = || Some(&*Box::leak((0..size).map(|_| Link::new(None)).collect()));
                    table.add_chunk(size, chunk)?;
                }
                Err(EnterError::Again) => {}
                Err(EnterError::Full) => return None,
            }
        }
    }

    fn threads(count: usize) -> &'static [usize] {
        Box::leak((0..count).collect())
    }

    #[test]
    fn threads_are_those_that_have_not_left() {
        let (table, mut cursor) = (Small::new(), TableCursor::new());
        let [first, second] = threads(2) else { panic!("two threads") };
        let number = enter(&table, &mut cursor, first, 0).unwrap();
        enter(&table, &mut cursor, second, 0).unwrap();
        assert_eq!(table.threads().copied().collect::<Vec<_>>(), [0, 1]);
        enter(&table, &mut cursor, first, number).unwrap();
        assert_eq!(table.threads().copied().collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn chunks_hold_all_entries_in_order() {
        let mut next = 0;
        for chunk in 0..CHUNKS {
            for offset in 0..chunk_size(chunk) {
                assert_eq!(position(next), (chunk, offset));
                next += 1;
            }
        }
        assert_eq!(next, FIRST_CHUNK << (CHUNKS - 1));
        assert_eq!(position(next).0, CHUNKS);
    }

    #[test]
    fn threads_are_found_by_number() {
        let (table, mut cursor) = (ThreadTable::<_, 18>::new(), TableCursor::new());
        let all = threads(1_000);
        for thread in all {
            let number = enter(&table, &mut cursor, thread, 0);
            assert_eq!(number, Some(u32::try_from(*thread).unwrap() + 1));
        }
        assert_eq!(table.find(1), Some(&0));
        assert_eq!(table.find(1_000 | 5 << 18), Some(&999));
        for absent in [0, 1_001, 1 << 18, u32::MAX] {
            assert_eq!(table.find(absent), None, "{absent:#x}");
        }
    }

    #[test]
    fn chunk_that_is_there_is_not_added_again() {
        let table = ThreadTable::<usize, 18>::new();
        let add = |size: usize| {
            let mut is_added = false;
            let added = table.add_chunk(size, || {
                is_added = true;
                Some(&*Box::leak((0..size).map(|_| Link::new(None)).collect()))
            });
            added.is_some() && is_added
        };
        // The first two have the same size.
        assert_eq!([32, 32, 32, 128, 64, 64].map(add), [true, true, false, false, true, false]);
        assert_eq!(table.add_chunk(128, || None), None, "there is no memory");
        assert!(add(128));
    }

    #[test]
    fn full_table_refuses_threads() {
        let (table, mut cursor) = (Small::new(), TableCursor::new());
        let all = threads(Small::MAX_THREADS + 1);
        assert!(all[1..].iter().all(|thread| enter(&table, &mut cursor, thread, 0).is_some()));
        assert_eq!(enter(&table, &mut cursor, &all[0], 0), None);
        // No thread can move to another entry either.
        assert_eq!(enter(&table, &mut cursor, &all[1], 1), None);
        assert_eq!(table.find(1), Some(&1));
    }

    /// One thread object has many lives while others keep theirs. No number repeats before all entries have
    /// been used.
    #[test]
    fn numbers_come_again_only_after_all_entries_were_used() {
        type Table = ThreadTable<usize, 20>;
        let (table, mut cursor) = (Table::new(), TableCursor::new());
        let all = threads(3);
        let others = [1, 2].map(|other: usize| enter(&table, &mut cursor, &all[other], 0).unwrap());
        let mut number = enter(&table, &mut cursor, &all[0], 0).unwrap();
        let mut seen = HashSet::new();
        // An entry has 2^11 numbers.
        for _ in 0..10_000 {
            assert!(seen.insert(number), "{number} twice");
            assert_eq!(table.find(number), Some(&0));
            number = Table::next_number(number)
                .unwrap_or_else(|| enter(&table, &mut cursor, &all[0], number).unwrap());
        }
        assert_eq!(number & Table::INDEX_MASK, 3 + 4);
        assert_eq!(cursor.used, 3);
        assert_eq!(others.map(|other| table.find(other)), [Some(&1), Some(&2)]);
    }

    #[test]
    fn vacant_entries_are_used_again_after_all_others() {
        let (table, mut cursor) = (Small::new(), TableCursor::new());
        let all = threads(2);
        enter(&table, &mut cursor, &all[1], 0).unwrap();
        let mut number = enter(&table, &mut cursor, &all[0], 0).unwrap();
        let mut indices = Vec::new();
        for _ in 0..2 * Small::MAX_THREADS {
            indices.push(number);
            number = enter(&table, &mut cursor, &all[0], number).unwrap();
        }
        let cycle: Vec<_> = (2..=31).collect();
        assert_eq!(indices[..30], cycle);
        assert_eq!(indices[30..60], cycle);
    }
}
