//! Interrupt lines of a machine that is a process.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hermit_interface::machine::LINES;
use hermit_interface::process::{BUSY, Cpu, WAITING};
use rustix::process::{Signal, pidfd_send_signal};
use rustix::thread::futex;
use vm_memory::{GuestAddress, GuestMemoryBackend, VolatileMemory};

use super::Shared;
use crate::devices::virtio::Interrupt;

/// A line, which leads to the first processor.
#[derive(Debug)]
pub(super) struct Line {
    shared: Arc<Shared>,
    bit: u32,
}

impl Line {
    pub(super) fn new(shared: Arc<Shared>, line: u32) -> Self {
        Self { shared, bit: if line < LINES { 1 << line } else { 0 } }
    }

    /// Does something with a word of the first processor.
    fn with<T>(&self, field: usize, work: impl FnOnce(&AtomicU32) -> T) -> Option<T> {
        let place =
            self.shared.memory.guest().get_slice(GuestAddress(field as u64), size_of::<u32>()).ok()?;
        place.get_atomic_ref::<AtomicU32>(0).ok().map(work)
    }

    /// Tells a processor that is not busy, and says whether it was one.
    fn wake(&self) -> bool {
        let wake = |idle: &AtomicU32| {
            let before = idle.swap(BUSY, Ordering::SeqCst);
            if before == WAITING {
                // The word is there, so nothing can fail.
                let _: rustix::io::Result<usize> = futex::wake(idle, futex::Flags::empty(), 1);
            }
            before != BUSY
        };
        self.with(offset_of!(Cpu, idle), wake) == Some(true)
    }
}

impl Interrupt for Line {
    fn raise(&self) {
        let before = self.with(offset_of!(Cpu, raised), |raised| raised.fetch_or(self.bit, Ordering::SeqCst));
        if before != Some(0) || self.wake() {
            return;
        }
        if let Some(process) = self.shared.process.get() {
            // A process that has ended needs none.
            let _: rustix::io::Result<()> = pidfd_send_signal(process, Signal::USR2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Line;
    use crate::devices::virtio::Interrupt;
    use crate::engine::process::Shared;
    use crate::memory::Memory;
    use hermit_interface::process::Cpu;
    use std::mem::offset_of;
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, Mutex, OnceLock};

    #[test]
    fn a_line_is_a_bit_and_wakes_a_processor_that_sleeps() {
        let memory = Memory::shared("8M".parse().unwrap()).unwrap();
        let shared = Arc::new(Shared { memory, kicks: Mutex::default(), process: OnceLock::new() });
        let [first, last, none] = [0, 15, 16].map(|line| Line::new(Arc::clone(&shared), line));
        let (idle, raised) = (offset_of!(Cpu, idle), offset_of!(Cpu, raised));
        first.with(idle, |idle| idle.store(1, Ordering::SeqCst)).unwrap();
        last.raise();
        assert_eq!(first.with(idle, |idle| idle.load(Ordering::SeqCst)), Some(0));
        first.with(idle, |idle| idle.store(1, Ordering::SeqCst)).unwrap();
        // Somebody else has woken it already.
        first.raise();
        none.raise();
        assert_eq!(first.with(idle, |idle| idle.load(Ordering::SeqCst)), Some(1));
        assert_eq!(first.with(raised, |raised| raised.load(Ordering::SeqCst)), Some(0x8001));
    }
}
