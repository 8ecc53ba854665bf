//! Interrupt lines of the process engine.
//!
//! A process has no interrupt controller. To raise a line, the hypervisor sets the line's bit in memory that
//! it shares with the guest's kernel. Then it wakes the boot CPU with a futex if the CPU sleeps, or
//! interrupts it with a signal if it runs. If another bit was already set, it does neither: the CPU was
//! notified for that bit, and will see both.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hermit_interface::machine::LINES;
use hermit_interface::process::{BUSY, SharedCpu, WAITING};
use rustix::process::{Signal, pidfd_send_signal};
use rustix::thread::futex;
use vm_memory::{GuestAddress, GuestMemoryBackend, VolatileMemory};

use super::Shared;
use crate::devices::virtio::Interrupt;

/// Interrupt line to the boot CPU: a bit in [`SharedCpu::raised`], and a futex wake-up or a signal.
#[derive(Debug)]
pub(super) struct IrqLine {
    shared: Arc<Shared>,
    /// Bit of the line in [`SharedCpu::raised`].
    bit: u32,
}

impl IrqLine {
    pub(super) fn new(shared: Arc<Shared>, line: u32) -> Self {
        Self { shared, bit: if line < LINES { 1 << line } else { 0 } }
    }

    /// Calls `work` with the 32-bit field at offset `field` of the boot CPU's [`SharedCpu`], which is at
    /// physical address 0.
    fn with<T>(&self, field: usize, work: impl FnOnce(&AtomicU32) -> T) -> Option<T> {
        let word = self.shared.memory.guest().get_slice(GuestAddress(field as u64), size_of::<u32>()).ok()?;
        word.get_atomic_ref::<AtomicU32>(0).ok().map(work)
    }

    /// Marks the boot CPU as busy, and wakes it if it sleeps. Returns true if it was idle.
    fn wake(&self) -> bool {
        let wake = |idle: &AtomicU32| {
            let before = idle.swap(BUSY, Ordering::SeqCst);
            if before == WAITING {
                // Fails only for an invalid address.
                let _: rustix::io::Result<usize> = futex::wake(idle, futex::Flags::empty(), 1);
            }
            before != BUSY
        };
        self.with(offset_of!(SharedCpu, idle), wake) == Some(true)
    }
}

impl Interrupt for IrqLine {
    fn raise(&self) {
        let before =
            self.with(offset_of!(SharedCpu, raised), |raised| raised.fetch_or(self.bit, Ordering::SeqCst));
        if before != Some(0) || self.wake() {
            return;
        }
        if let Some(pidfd) = self.shared.pidfd.get() {
            // Fails if the process has exited.
            let _: rustix::io::Result<()> = pidfd_send_signal(pidfd, Signal::USR2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::IrqLine;
    use crate::devices::virtio::Interrupt;
    use crate::engine::process::Shared;
    use crate::memory::Memory;
    use hermit_interface::process::SharedCpu;
    use std::mem::offset_of;
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, Mutex, OnceLock};

    #[test]
    fn raise_sets_bit_and_wakes_an_idle_cpu() {
        let memory = Memory::shared("8M".parse().unwrap()).unwrap();
        let shared = Arc::new(Shared { memory, queue_events: Mutex::default(), pidfd: OnceLock::new() });
        let [first, last, none] = [0, 15, 16].map(|line| IrqLine::new(Arc::clone(&shared), line));
        let (idle, raised) = (offset_of!(SharedCpu, idle), offset_of!(SharedCpu, raised));
        first.with(idle, |idle| idle.store(1, Ordering::SeqCst)).unwrap();
        last.raise();
        assert_eq!(first.with(idle, |idle| idle.load(Ordering::SeqCst)), Some(0));
        first.with(idle, |idle| idle.store(1, Ordering::SeqCst)).unwrap();
        // Another line is still raised, so the CPU was notified, and is not woken again.
        first.raise();
        none.raise();
        assert_eq!(first.with(idle, |idle| idle.load(Ordering::SeqCst)), Some(1));
        assert_eq!(first.with(raised, |raised| raised.load(Ordering::SeqCst)), Some(0x8001));
    }
}
