//! Tables of objects that the guest names by numbers: nodes and handles.

/// A table with a bounded number of values. No two values ever get the same number: its lower bits are the
/// index of the slot, and the bits above are the slot's generation, the number of times that the slot was
/// used before. The four highest bits are 0, so that clients may use them.
#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// Indices of empty slots.
    free: Vec<u32>,
    max: usize,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u64,
    value: Option<T>,
}

/// First number. Neither 0 nor [`hermit_fuse::ROOT_NODE`] may be the number of a value.
const FIRST: u64 = 2;

/// Number of bits of the slot's index in a number. There are at most 65,536 slots.
const INDEX_BITS: u32 = 24;
const MAX_INDEX: u64 = (1 << INDEX_BITS) - 1;

/// Maximum number of times that a slot is used. The generation has 36 bits.
const MAX_GENERATION: u64 = 1 << (60 - INDEX_BITS);

impl<T> Slots<T> {
    /// Creates a table of at most `max` values.
    pub(super) fn new(max: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), max }
    }

    /// Returns true if there is no room for another value.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.max
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a value and returns its number; `None` if the table is full.
    pub(super) fn insert(&mut self, value: T) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot { generation: 0, value: None });
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        let slot = self.slots.get_mut(usize::try_from(index).ok()?)?;
        slot.value = Some(value);
        Some(slot.generation << INDEX_BITS | (u64::from(index) + FIRST))
    }

    /// Value of this number, if there is one.
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let (index, generation) = split(number)?;
        self.slots.get(index).filter(|slot| slot.generation == generation)?.value.as_ref()
    }

    /// Value of this number, if there is one.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (index, generation) = split(number)?;
        self.slots.get_mut(index).filter(|slot| slot.generation == generation)?.value.as_mut()
    }

    /// Removes and returns a value. Its number becomes invalid.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let (index, generation) = split(number)?;
        let slot = self.slots.get_mut(index).filter(|slot| slot.generation == generation)?;
        let value = slot.value.take()?;
        // A slot that has used all its generations is never used again.
        slot.generation += 1;
        if slot.generation < MAX_GENERATION {
            self.free.push(u32::try_from(index).ok()?);
        }
        Some(value)
    }
}

/// Returns the slot's index and the generation of a number.
fn split(number: u64) -> Option<(usize, u64)> {
    let index = (number & MAX_INDEX).checked_sub(FIRST)?;
    Some((usize::try_from(index).ok()?, number >> INDEX_BITS))
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn number_is_valid_until_its_value_is_removed() {
        let mut slots = Slots::new(2);
        let [first, second] = ["first", "second"].map(|value| slots.insert(value).unwrap());
        assert_eq!((slots.get(first), slots.get(second)), (Some(&"first"), Some(&"second")));
        assert_eq!((slots.insert("third"), slots.is_full()), (None, true));
        assert_eq!((slots.remove(first), slots.remove(first)), (Some("first"), None));
        let third = slots.insert("third").unwrap();
        assert_ne!(third, first);
        assert_eq!((slots.get(first), slots.get(third)), (None, Some(&"third")));
        *slots.get_mut(second).unwrap() = "changed";
        assert_eq!((slots.remove(second), slots.len()), (Some("changed"), 1));
    }

    #[test]
    fn slot_is_not_used_again_when_its_generations_are_used_up() {
        let mut slots = Slots::new(1);
        slots.insert(()).unwrap();
        slots.slots[0].generation = super::MAX_GENERATION - 1;
        let last = (super::MAX_GENERATION - 1) << super::INDEX_BITS | super::FIRST;
        assert_eq!((last >> 60, slots.remove(last)), (0, Some(())));
        assert_eq!((slots.insert(()), slots.remove(last)), (None, None));
    }

    #[test]
    fn numbers_that_were_never_given_have_no_value() {
        let mut slots = Slots::new(8);
        let number = slots.insert(()).unwrap();
        for wrong in [0, 1, number + 1, number | 1 << 24, number | 1 << 32, number | 1 << 63, u64::MAX] {
            assert!(slots.get(wrong).is_none() && slots.remove(wrong).is_none(), "{wrong:#x}");
        }
        assert!(slots.get(number).is_some());
    }
}
