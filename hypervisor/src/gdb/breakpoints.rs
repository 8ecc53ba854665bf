//! Software breakpoints: instructions that are replaced by `int3`.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::debug::INT3;

/// Maximum number of breakpoints, because each takes memory of this process. gdb gets an error for more.
pub(super) const MAX_BREAKPOINTS: usize = 4096;

/// Breakpoint instructions of gdb. All other `int3` in guest memory are the guest's own.
#[derive(Debug, Default)]
pub(super) struct Breakpoints {
    /// Breakpoints that gdb has set: address, and the guest's byte that `int3` has replaced.
    set: BTreeMap<u64, u8>,
    /// Addresses to which gdb has written a breakpoint instruction as data.
    written: BTreeSet<u64>,
}

impl Breakpoints {
    /// Returns true if a breakpoint instruction at this address belongs to gdb.
    pub(super) fn is_at(&self, address: u64) -> bool {
        self.set.contains_key(&address) || self.written.contains(&address)
    }

    /// Returns true if gdb has set a breakpoint at this address.
    pub(super) fn is_set(&self, address: u64) -> bool {
        self.set.contains_key(&address)
    }

    /// Returns true if there can be no more breakpoints.
    pub(super) fn is_full(&self) -> bool {
        self.set.len() + self.written.len() >= MAX_BREAKPOINTS
    }

    /// Records a breakpoint that replaces `byte`.
    pub(super) fn insert(&mut self, address: u64, byte: u8) {
        self.set.insert(address, byte);
    }

    /// Removes a breakpoint, and returns the guest's byte there.
    pub(super) fn remove(&mut self, address: u64) -> Option<u8> {
        self.set.remove(&address)
    }

    /// Removes all breakpoints, and returns the guest's bytes.
    pub(super) fn take(&mut self) -> BTreeMap<u64, u8> {
        self.written.clear();
        std::mem::take(&mut self.set)
    }

    /// Replaces breakpoints by the guest's bytes, in `bytes` that were read at `address`.
    pub(super) fn hide(&self, address: u64, bytes: &mut [u8]) {
        for (address, byte) in addresses(address).zip(bytes) {
            if let Some(original) = self.set.get(&address) {
                *byte = *original;
            }
        }
    }

    /// Records that gdb writes `bytes` to `address`. Returns the bytes to write to memory, in which
    /// breakpoints remain.
    pub(super) fn merge_write(&mut self, address: u64, bytes: &[u8]) -> Vec<u8> {
        let is_breakpoint = bytes == [INT3];
        let bytes = addresses(address).zip(bytes);
        bytes.map(|(address, &byte)| self.merge_byte(address, byte, is_breakpoint)).collect()
    }

    fn merge_byte(&mut self, address: u64, byte: u8, is_breakpoint: bool) -> u8 {
        if let Some(original) = self.set.get_mut(&address) {
            *original = byte;
            return INT3;
        }
        if is_breakpoint {
            self.written.insert(address);
        } else {
            self.written.remove(&address);
        }
        byte
    }
}

/// Returns consecutive addresses that begin at `address` and wrap around.
fn addresses(address: u64) -> impl Iterator<Item = u64> {
    (0..).map(move |offset| address.wrapping_add(offset))
}

#[cfg(test)]
mod tests {
    use super::Breakpoints;

    #[test]
    fn reads_show_the_instruction_and_not_the_breakpoint() {
        let mut breakpoints = Breakpoints::default();
        breakpoints.insert(0x11, 0x90);
        let mut bytes = [1, 0xcc, 0xcc];
        breakpoints.hide(0x10, &mut bytes);
        assert_eq!(bytes, [1, 0x90, 0xcc]);
        assert_eq!(breakpoints.remove(0x11), Some(0x90));
        assert_eq!(breakpoints.remove(0x11), None);
    }

    #[test]
    fn write_over_breakpoint_keeps_it() {
        let mut breakpoints = Breakpoints::default();
        breakpoints.insert(0x11, 0x90);
        assert_eq!(breakpoints.merge_write(0x10, &[1, 2, 3]), [1, 0xcc, 3]);
        assert_eq!(breakpoints.take().into_iter().collect::<Vec<_>>(), [(0x11, 2)]);
        assert!(!breakpoints.is_at(0x11));
    }

    #[test]
    fn breakpoint_written_as_data_belongs_to_gdb() {
        let mut breakpoints = Breakpoints::default();
        assert_eq!(breakpoints.merge_write(0x10, &[0xcc]), [0xcc]);
        assert!(breakpoints.is_at(0x10) && !breakpoints.is_set(0x10));
        assert_eq!(breakpoints.merge_write(0x10, &[0x90]), [0x90]);
        assert!(!breakpoints.is_at(0x10));
        breakpoints.merge_write(0x10, &[0xcc, 0xcc]);
        assert!(!breakpoints.is_at(0x10), "several bytes are data");
    }

    #[test]
    fn hide_works_at_the_last_address() {
        let mut breakpoints = Breakpoints::default();
        breakpoints.insert(u64::MAX - 1, 7);
        let mut bytes = [0; 2];
        breakpoints.hide(u64::MAX - 2, &mut bytes);
        assert_eq!(bytes, [0, 7]);
    }
}
