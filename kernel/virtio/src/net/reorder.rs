//! A reorder buffer: values arrive in any order and leave in the order of their sequence numbers.

use alloc::vec::Vec;

/// Values within a window of sequence numbers. The buffer never allocates after its creation.
#[derive(Debug)]
pub(super) struct ReorderBuffer<V> {
    /// Slots, a power of two: one per sequence number of the window.
    slots: Vec<Option<V>>,
    /// Next sequence number to leave, free-running.
    next: usize,
}

impl<V> ReorderBuffer<V> {
    /// Creates a window of `size` sequence numbers, a power of two; `None` if there is no memory.
    pub(super) fn new(size: usize) -> Option<Self> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(size).ok()?;
        slots.resize_with(size, || None);
        Some(Self { slots, next: 0 })
    }

    /// Size of the window.
    pub(super) const fn size(&self) -> usize {
        self.slots.len()
    }

    /// Next sequence number to leave.
    pub(super) const fn next_sequence(&self) -> usize {
        self.next
    }

    /// Inserts a value whose sequence number lies in the window.
    pub(super) fn insert(&mut self, sequence: usize, value: V) {
        let index = sequence & (self.slots.len() - 1);
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Some(value);
        }
    }

    /// Removes the value with the next sequence number, if it has arrived.
    pub(super) fn pop_next(&mut self) -> Option<V> {
        let index = self.next & (self.slots.len() - 1);
        let value = self.slots.get_mut(index)?.take()?;
        self.next = self.next.wrapping_add(1);
        Some(value)
    }
}
