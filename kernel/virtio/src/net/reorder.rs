//! Things that come back in any order and go on in the order of their numbers.

use alloc::vec::Vec;

/// A window of numbers, from the next one to go on; it never allocates.
#[derive(Debug)]
pub(super) struct ReorderBuffer<V> {
    /// As many as the window has numbers, a power of two.
    slots: Vec<Option<V>>,
    /// Running, modulo a multiple of the window.
    next: usize,
}

impl<V> ReorderBuffer<V> {
    /// A window of `size` numbers, a power of two; `None` if there is no memory.
    pub(super) fn new(size: usize) -> Option<Self> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(size).ok()?;
        slots.resize_with(size, || None);
        Some(Self { slots, next: 0 })
    }

    /// How many numbers there are in the window.
    pub(super) const fn size(&self) -> usize {
        self.slots.len()
    }

    /// The next number to go on.
    pub(super) const fn next_number(&self) -> usize {
        self.next
    }

    /// Puts a thing with a number of the window into its place.
    pub(super) fn put(&mut self, number: usize, value: V) {
        let index = number & (self.slots.len() - 1);
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Some(value);
        }
    }

    /// Takes the next thing out, if it is there.
    pub(super) fn take(&mut self) -> Option<V> {
        let index = self.next & (self.slots.len() - 1);
        let value = self.slots.get_mut(index)?.take()?;
        self.next = self.next.wrapping_add(1);
        Some(value)
    }
}
