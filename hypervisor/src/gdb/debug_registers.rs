//! Allocation of the debug registers to hardware breakpoints and watchpoints. All vCPUs have the same values
//! in their debug registers.

use gdbstub::target::ext::breakpoints::WatchKind;

use crate::engine::debug::{BreakpointAccess, HARDWARE_BREAKPOINTS, HardwareBreakpoint, WatchLength};

/// gdb's request for a hardware breakpoint or a watchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WatchRequest {
    /// First virtual address.
    pub(super) address: u64,
    /// Length in bytes.
    pub(super) length: u64,
    /// Access that triggers the stop.
    pub(super) trigger: BreakpointTrigger,
}

/// Access that triggers a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakpointTrigger {
    /// Execution: a hardware breakpoint.
    Execute,
    /// Read or write: a watchpoint. The CPU cannot watch reads only, so a read watchpoint triggers at writes
    /// too.
    Watch(WatchKind),
}

impl BreakpointTrigger {
    const fn access(self) -> BreakpointAccess {
        match self {
            Self::Execute => BreakpointAccess::Execute,
            Self::Watch(WatchKind::Write) => BreakpointAccess::Write,
            Self::Watch(WatchKind::Read | WatchKind::ReadWrite) => BreakpointAccess::ReadWrite,
        }
    }
}

/// Debug register in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allocated {
    breakpoint: HardwareBreakpoint,
    request: WatchRequest,
}

/// Debug registers DR0 to DR3.
#[derive(Clone, Debug, Default)]
pub(super) struct DebugRegisters([Option<Allocated>; HARDWARE_BREAKPOINTS]);

impl DebugRegisters {
    /// Allocates the registers that the request needs. Returns `None`, and changes nothing, if there are too
    /// few.
    pub(super) fn insert(&mut self, request: WatchRequest) -> Option<()> {
        let mut after = self.0;
        let mut free = after.iter_mut().filter(|register| register.is_none());
        let end = request.address.checked_add(request.length).filter(|_| request.length > 0)?;
        let mut address = request.address;
        while address < end {
            let length = longest(address, end - address);
            let access = request.trigger.access();
            let breakpoint = HardwareBreakpoint { address, length, access };
            *free.next()? = Some(Allocated { breakpoint, request });
            address += length.bytes();
        }
        self.0 = after;
        Some(())
    }

    /// Frees the registers of the request. Returns `None` if the request has no registers.
    pub(super) fn remove(&mut self, request: WatchRequest) -> Option<()> {
        let belongs = |register: &&mut Option<Allocated>| {
            register.is_some_and(|allocated| allocated.request == request)
        };
        let freed = self.0.iter_mut().filter(belongs).map(|register| *register = None).count();
        (freed > 0).then_some(())
    }

    /// Frees all registers.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the values for a vCPU.
    pub(super) fn values(&self) -> [Option<HardwareBreakpoint>; HARDWARE_BREAKPOINTS] {
        self.0.map(|register| register.map(|used| used.breakpoint))
    }

    /// Returns the address and the trigger of the first register that was hit and is in use. `hits` has a bit
    /// for each register.
    pub(super) fn first_hit(&self, hits: u8) -> Option<(u64, BreakpointTrigger)> {
        let is_hit = |number: &u32| hits >> number & 1 != 0;
        let registers = (0..).zip(&self.0).filter(|(number, _)| is_hit(number));
        registers
            .filter_map(|(_, used)| *used)
            .map(|used| (used.breakpoint.address, used.request.trigger))
            .next()
    }
}

/// Returns the longest range that begins at `address`, has at most `max` bytes, and that one register can
/// watch.
fn longest(address: u64, max: u64) -> WatchLength {
    let fits = |length: &WatchLength| length.bytes() <= max && address.is_multiple_of(length.bytes());
    WatchLength::ALL.into_iter().find(fits).unwrap_or(WatchLength::Byte)
}

#[cfg(test)]
mod tests {
    use super::{BreakpointTrigger, DebugRegisters, WatchKind, WatchRequest};
    use proptest::prelude::any;
    use proptest::proptest;

    const WRITE: BreakpointTrigger = BreakpointTrigger::Watch(WatchKind::Write);

    fn used(registers: &DebugRegisters) -> Vec<(u64, u64)> {
        registers.values().iter().flatten().map(|used| (used.address, used.length.bytes())).collect()
    }

    #[test]
    fn range_is_split_into_aligned_registers() {
        let mut registers = DebugRegisters::default();
        let odd = WatchRequest { address: 0x1003, length: 13, trigger: WRITE };
        registers.insert(odd).unwrap();
        assert_eq!(used(&registers), [(0x1003, 1), (0x1004, 4), (0x1008, 8)]);
        let long = WatchRequest { address: 0x2000, length: 16, trigger: WRITE };
        assert_eq!(registers.insert(long), None);
        assert_eq!(used(&registers).len(), 3, "a failed insert left registers allocated");
        registers.remove(odd).unwrap();
        registers.insert(long).unwrap();
        assert_eq!(used(&registers), [(0x2000, 8), (0x2008, 8)]);
    }

    #[test]
    fn remove_needs_an_equal_request() {
        let mut registers = DebugRegisters::default();
        let request = WatchRequest { address: 0x1000, length: 8, trigger: WRITE };
        registers.insert(request).unwrap();
        assert_eq!(registers.remove(WatchRequest { trigger: BreakpointTrigger::Execute, ..request }), None);
        registers.remove(request).unwrap();
        assert_eq!(registers.remove(request), None);
    }

    #[test]
    fn first_hit_finds_allocated_register() {
        let mut registers = DebugRegisters::default();
        for (address, trigger) in [(0x1000, BreakpointTrigger::Execute), (0x2000, WRITE)] {
            registers.insert(WatchRequest { address, length: 1, trigger }).unwrap();
        }
        assert_eq!(registers.first_hit(0b10), Some((0x2000, WRITE)));
        assert_eq!(registers.first_hit(0b11), Some((0x1000, BreakpointTrigger::Execute)));
        assert_eq!(registers.first_hit(0b1100), None);
        registers.clear();
        assert_eq!(registers.first_hit(0b11), None);
    }

    proptest! {
        #[test]
        fn insert_covers_the_whole_request_or_fails(address in any::<u64>(), length in any::<u64>()) {
            let mut registers = DebugRegisters::default();
            let request = WatchRequest { address, length, trigger: WRITE };
            if registers.insert(request).is_some() {
                let pieces = used(&registers);
                assert_eq!(pieces.iter().map(|(_, length)| length).sum::<u64>(), length);
                assert!(pieces.iter().all(|(address, length)| address % length == 0));
            }
        }
    }
}
