//! Instructions that were replaced by `int3`.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::debug::BREAKPOINT;

/// Breakpoint instructions that are gdb's, so that others are the guest's own.
#[derive(Debug, Default)]
pub(super) struct Breakpoints {
    /// Set at gdb's request: address and what the guest has there.
    set: BTreeMap<u64, u8>,
    /// Written by gdb as if they were data.
    written: BTreeSet<u64>,
}

impl Breakpoints {
    /// Whether a breakpoint instruction at this address is gdb's.
    pub(super) fn is_at(&self, address: u64) -> bool {
        self.set.contains_key(&address) || self.written.contains(&address)
    }

    /// Whether gdb has set one here.
    pub(super) fn is_set(&self, address: u64) -> bool {
        self.set.contains_key(&address)
    }

    /// There is one now, in place of this byte.
    pub(super) fn insert(&mut self, address: u64, byte: u8) {
        self.set.insert(address, byte);
    }

    /// There is none any more. Gives what the guest has there.
    pub(super) fn remove(&mut self, address: u64) -> Option<u8> {
        self.set.remove(&address)
    }

    /// Forgets all, and gives what the guest has there.
    pub(super) fn take(&mut self) -> BTreeMap<u64, u8> {
        self.written.clear();
        std::mem::take(&mut self.set)
    }

    /// Has bytes that were read at an address be those of the guest.
    pub(super) fn hide(&self, address: u64, bytes: &mut [u8]) {
        for (place, byte) in places(address).zip(bytes) {
            if let Some(original) = self.set.get(&place) {
                *byte = *original;
            }
        }
    }

    /// gdb writes these bytes: notes what the guest has then, and gives what must be written for breakpoints to stay.
    pub(super) fn keep(&mut self, address: u64, bytes: &[u8]) -> Vec<u8> {
        let is_breakpoint = bytes == [BREAKPOINT];
        let places = places(address).zip(bytes);
        places.map(|(place, &byte)| self.keep_byte(place, byte, is_breakpoint)).collect()
    }

    fn keep_byte(&mut self, place: u64, byte: u8, is_breakpoint: bool) -> u8 {
        if let Some(original) = self.set.get_mut(&place) {
            *original = byte;
            return BREAKPOINT;
        }
        if is_breakpoint {
            self.written.insert(place);
        } else {
            self.written.remove(&place);
        }
        byte
    }
}

/// Addresses from this one on; the first one follows the last.
fn places(address: u64) -> impl Iterator<Item = u64> {
    (0..).map(move |offset| address.wrapping_add(offset))
}

#[cfg(test)]
mod tests {
    use super::Breakpoints;

    #[test]
    fn gdb_sees_the_instruction_and_not_the_breakpoint() {
        let mut breakpoints = Breakpoints::default();
        breakpoints.insert(0x11, 0x90);
        let mut bytes = [1, 0xcc, 0xcc];
        breakpoints.hide(0x10, &mut bytes);
        assert_eq!(bytes, [1, 0x90, 0xcc]);
        assert_eq!(breakpoints.remove(0x11), Some(0x90));
        assert_eq!(breakpoints.remove(0x11), None);
    }

    #[test]
    fn a_breakpoint_survives_what_is_written_over_it() {
        let mut breakpoints = Breakpoints::default();
        breakpoints.insert(0x11, 0x90);
        assert_eq!(breakpoints.keep(0x10, &[1, 2, 3]), [1, 0xcc, 3]);
        assert_eq!(breakpoints.take().into_iter().collect::<Vec<_>>(), [(0x11, 2)]);
        assert!(!breakpoints.is_at(0x11));
    }

    #[test]
    fn breakpoints_that_gdb_writes_itself_are_its_own() {
        let mut breakpoints = Breakpoints::default();
        assert_eq!(breakpoints.keep(0x10, &[0xcc]), [0xcc]);
        assert!(breakpoints.is_at(0x10) && !breakpoints.is_set(0x10));
        assert_eq!(breakpoints.keep(0x10, &[0x90]), [0x90]);
        assert!(!breakpoints.is_at(0x10));
        breakpoints.keep(0x10, &[0xcc, 0xcc]);
        assert!(!breakpoints.is_at(0x10), "that is data with such bytes");
    }

    #[test]
    fn the_last_address_is_no_trouble() {
        let mut breakpoints = Breakpoints::default();
        breakpoints.insert(u64::MAX - 1, 7);
        let mut bytes = [0; 2];
        breakpoints.hide(u64::MAX - 2, &mut bytes);
        assert_eq!(bytes, [0, 7]);
    }
}
