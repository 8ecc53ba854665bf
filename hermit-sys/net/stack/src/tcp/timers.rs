//! Timers of sockets: a binary heap of deadlines, with an index from slot to position.

use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::socket::slab::index_of;

/// Position of a slot that is not in the heap.
const ABSENT: usize = usize::MAX;

/// Deadlines in nanoseconds, at most one per slot.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Binary heap of deadlines and slots. The parent of position `i` is `(i - 1) / 2`, and its deadline is
    /// not later.
    heap: Vec<(u64, u32)>,
    /// Position in the heap by index of the slot.
    places: Vec<usize>,
}

impl Timers {
    /// Reserves memory for `slots` slots, so that no other call can fail.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reserve(&mut self, slots: usize) -> Result<(), Errno> {
        let missing = slots.saturating_sub(self.places.len());
        self.places.try_reserve(missing)?;
        self.heap.try_reserve(slots.saturating_sub(self.heap.len()))?;
        self.places.resize(self.places.len() + missing, ABSENT);
        Ok(())
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.first().map(|&(deadline, _)| deadline)
    }

    /// Removes and returns the slot with the earliest deadline, if the deadline has passed.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<u32> {
        let &(_, slot) = self.heap.first().filter(|&&(deadline, _)| deadline <= now)?;
        self.set(slot, None);
        Some(slot)
    }

    /// Sets, changes or, with `None`, removes the deadline of a slot. Memory must be reserved for the slot.
    pub(crate) fn set(&mut self, slot: u32, deadline: Option<u64>) {
        let Some(&place) = self.places.get(index_of(slot)) else { return };
        match deadline {
            Some(deadline) if place == ABSENT => {
                self.heap.push((deadline, slot));
                self.rise(self.heap.len() - 1);
            }
            Some(deadline) => {
                if let Some(socket) = self.heap.get_mut(place) {
                    socket.0 = deadline;
                }
                self.settle(place);
            }
            None if place != ABSENT => {
                // The last entry takes the place of the removed one.
                self.heap.swap_remove(place);
                self.note(slot, ABSENT);
                self.settle(place);
            }
            None => (),
        }
    }

    /// Sets the deadline of a slot, unless an earlier one is set. A later deadline is not stored, since this
    /// would cost an update of the heap.
    pub(crate) fn advance(&mut self, slot: u32, deadline: Option<u64>) {
        let before = self.moment(slot);
        if let Some(deadline) = deadline.filter(|&deadline| before.is_none_or(|before| deadline < before)) {
            self.set(slot, Some(deadline));
        }
    }

    /// Deadline of a slot.
    pub(crate) fn moment(&self, slot: u32) -> Option<u64> {
        self.places.get(index_of(slot)).and_then(|&place| self.deadline(place))
    }

    fn note(&mut self, slot: u32, place: usize) {
        if let Some(noted) = self.places.get_mut(index_of(slot)) {
            *noted = place;
        }
    }

    fn deadline(&self, place: usize) -> Option<u64> {
        self.heap.get(place).map(|&(deadline, _)| deadline)
    }

    /// Swaps two positions of the heap.
    fn exchange(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            if let Some(&(_, slot)) = self.heap.get(place) {
                self.note(slot, place);
            }
        }
    }

    /// Restores the heap order at one position.
    fn settle(&mut self, place: usize) {
        if place < self.heap.len() {
            let place = self.rise(place);
            self.sink(place);
        }
    }

    fn rise(&mut self, mut place: usize) -> usize {
        self.exchange(place, place);
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.deadline(parent) <= self.deadline(place) {
                break;
            }
            self.exchange(place, parent);
            place = parent;
        }
        place
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let children =
                [2 * place + 1, 2 * place + 2].into_iter().filter(|&child| child < self.heap.len());
            let Some(child) = children.min_by_key(|&child| self.deadline(child)) else { return };
            if self.deadline(place) <= self.deadline(child) {
                return;
            }
            self.exchange(place, child);
            place = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Timers;
    use proptest::collection::vec;
    use proptest::{option, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn timer_heap_agrees_with_a_table(steps in vec((0..16_u32, option::of(0..40_u64), 0..40_u64), 0..300)) {
            let mut timers = Timers::default();
            timers.reserve(16).unwrap();
            let mut model = [None; 16];
            for (slot, deadline, now) in steps {
                timers.set(slot, deadline);
                model[slot as usize] = deadline;
                timers.advance(slot, Some(now));
                let place = &mut model[slot as usize];
                *place = Some(place.map_or(now, |before: u64| before.min(now)));
                prop_assert_eq!(timers.moment(slot), *place);
                if now % 3 == 0 {
                    let expected = model.iter().flatten().min().copied().filter(|&first| first <= now);
                    let taken = timers.pop_due(now);
                    prop_assert_eq!(taken.and_then(|slot| model[slot as usize]), expected);
                    if let Some(slot) = taken {
                        model[slot as usize] = None;
                    }
                }
                prop_assert_eq!(timers.next(), model.iter().flatten().min().copied());
            }
        }
    }

    #[test]
    fn set_without_reserve_is_ignored() {
        let mut timers = Timers::default();
        timers.set(3, Some(1));
        assert_eq!(timers.next(), None);
    }
}
