//! The debug registers, which all processors share.

use gdbstub::target::ext::breakpoints::WatchKind;

use crate::engine::debug::{Access, HARDWARE_BREAKPOINTS, HardwareBreakpoint, WatchLength};

/// What gdb has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The first address.
    pub(super) address: u64,
    /// How many bytes.
    pub(super) length: u64,
    /// What must happen there.
    pub(super) kind: Kind,
}

/// What must happen for a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The instruction there is next.
    Execute,
    /// The memory is used. The processor cannot tell reads from writes, so that a watch for reads sees both.
    Watch(WatchKind),
}

impl Kind {
    const fn access(self) -> Access {
        match self {
            Self::Execute => Access::Execute,
            Self::Watch(WatchKind::Write) => Access::Write,
            Self::Watch(WatchKind::Read | WatchKind::ReadWrite) => Access::ReadWrite,
        }
    }
}

/// One debug register in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    breakpoint: HardwareBreakpoint,
    request: Request,
}

/// The debug registers.
#[derive(Clone, Debug, Default)]
pub(super) struct Watchpoints([Option<Used>; HARDWARE_BREAKPOINTS]);

impl Watchpoints {
    /// Takes as many registers as the request needs. None, and nothing has changed, if there are too few.
    pub(super) fn insert(&mut self, request: Request) -> Option<()> {
        let mut after = self.0;
        let mut free = after.iter_mut().filter(|register| register.is_none());
        let end = request.address.checked_add(request.length).filter(|_| request.length > 0)?;
        let mut address = request.address;
        while address < end {
            let length = longest(address, end - address);
            let access = request.kind.access();
            let breakpoint = HardwareBreakpoint { address, length, access };
            *free.next()? = Some(Used { breakpoint, request });
            address += length.bytes();
        }
        self.0 = after;
        Some(())
    }

    /// Frees the request's registers, if it has any.
    pub(super) fn remove(&mut self, request: Request) -> Option<()> {
        let is_its = |register: &&mut Option<Used>| register.is_some_and(|used| used.request == request);
        let freed = self.0.iter_mut().filter(is_its).map(|register| *register = None).count();
        (freed > 0).then_some(())
    }

    /// Frees all.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// As a processor needs them.
    pub(super) fn registers(&self) -> [Option<HardwareBreakpoint>; HARDWARE_BREAKPOINTS] {
        self.0.map(|register| register.map(|used| used.breakpoint))
    }

    /// The first of these registers that is in use: where it is and what it is for.
    pub(super) fn first_of(&self, hits: u8) -> Option<(u64, Kind)> {
        let is_hit = |number: &u32| hits >> number & 1 != 0;
        let registers = (0..).zip(&self.0).filter(|(number, _)| is_hit(number));
        registers
            .filter_map(|(_, used)| *used)
            .map(|used| (used.breakpoint.address, used.request.kind))
            .next()
    }
}

/// The longest piece that begins here and that a register can watch.
fn longest(address: u64, most: u64) -> WatchLength {
    let fits = |length: &WatchLength| length.bytes() <= most && address.is_multiple_of(length.bytes());
    WatchLength::ALL.into_iter().find(fits).unwrap_or(WatchLength::Byte)
}

#[cfg(test)]
mod tests {
    use super::{Kind, Request, WatchKind, Watchpoints};
    use proptest::prelude::any;
    use proptest::proptest;

    const WRITE: Kind = Kind::Watch(WatchKind::Write);

    fn used(watchpoints: &Watchpoints) -> Vec<(u64, u64)> {
        let registers = watchpoints.registers();
        registers.iter().flatten().map(|used| (used.address, used.length.bytes())).collect()
    }

    #[test]
    fn a_range_is_watched_in_pieces() {
        let mut watchpoints = Watchpoints::default();
        let odd = Request { address: 0x1003, length: 13, kind: WRITE };
        watchpoints.insert(odd).unwrap();
        assert_eq!(used(&watchpoints), [(0x1003, 1), (0x1004, 4), (0x1008, 8)]);
        let long = Request { address: 0x2000, length: 16, kind: WRITE };
        assert_eq!(watchpoints.insert(long), None);
        assert_eq!(used(&watchpoints).len(), 3, "half a watchpoint was left");
        watchpoints.remove(odd).unwrap();
        watchpoints.insert(long).unwrap();
        assert_eq!(used(&watchpoints), [(0x2000, 8), (0x2008, 8)]);
    }

    #[test]
    fn only_what_was_set_can_be_removed() {
        let mut watchpoints = Watchpoints::default();
        let request = Request { address: 0x1000, length: 8, kind: WRITE };
        watchpoints.insert(request).unwrap();
        assert_eq!(watchpoints.remove(Request { kind: Kind::Execute, ..request }), None);
        watchpoints.remove(request).unwrap();
        assert_eq!(watchpoints.remove(request), None);
    }

    #[test]
    fn a_hit_is_traced_to_its_register() {
        let mut watchpoints = Watchpoints::default();
        for (address, kind) in [(0x1000, Kind::Execute), (0x2000, WRITE)] {
            watchpoints.insert(Request { address, length: 1, kind }).unwrap();
        }
        assert_eq!(watchpoints.first_of(0b10), Some((0x2000, WRITE)));
        assert_eq!(watchpoints.first_of(0b11), Some((0x1000, Kind::Execute)));
        assert_eq!(watchpoints.first_of(0b1100), None);
        watchpoints.clear();
        assert_eq!(watchpoints.first_of(0b11), None);
    }

    proptest! {
        #[test]
        fn any_request_is_met_or_refused(address in any::<u64>(), length in any::<u64>()) {
            let mut watchpoints = Watchpoints::default();
            let request = Request { address, length, kind: WRITE };
            if watchpoints.insert(request).is_some() {
                let pieces = used(&watchpoints);
                assert_eq!(pieces.iter().map(|(_, length)| length).sum::<u64>(), length);
                assert!(pieces.iter().all(|(address, length)| address % length == 0));
            }
        }
    }
}
