//! The process that our hypervisor makes of an image where there is no virtualisation hardware: what the kernel finds in
//! it, and what it may ask Linux for.
//!
//! The machine is that of [`crate::machine`], but for what takes privilege. Memory is an open file
//! ([`MEMORY`], [`memory_offset`]) that is mapped as the page tables of boot information say before the first
//! instruction; nobody else reads those tables, and whoever changes them changes the mappings, too. Device registers and ports
//! are reached by [`CALL`]. CPUs are threads, all of them there from the start: CPU 0 is the thread whose identifier is that of
//! the process, the others wait for [`Cpu::started`]. Each enters the kernel with FS and GS at 0 and with all signals
//! blocked but those of exceptions and of terminals that stop programs; on CPUs other than the first [`DEVICE`] stays so. What happens next to an address
//! that is not mapped, or to any exception, is a signal, as Linux has it.
//!
//! The kernel may use these system calls, and is killed for any other:
//!
//! | call | with |
//! | --- | --- |
//! | [`CALL`] | anything |
//! | `futex` | `FUTEX_WAIT`, `FUTEX_WAKE`, not private |
//! | `tgkill` | this process, [`INTERRUPT`] |
//! | `mmap` | an address in [`ADDRESSES`]; no access, or reading with or without writing or executing; `MAP_SHARED` and `MAP_FIXED`, perhaps `MAP_POPULATE`; [`MEMORY`] |
//! | `mprotect` | an address and an access as for `mmap` |
//! | `munmap` | an address in [`ADDRESSES`] |
//! | `rt_sigaction`, `rt_sigprocmask`, `sigaltstack`, `rt_sigreturn` | anything |
//! | `timer_settime` | anything |
//! | `write` | eight bytes, to [`kick`] |
//! | `sched_yield`, `restart_syscall` | |

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::MAX_CPUS;
use crate::boot_info::Region;
use crate::machine::HOLE;

/// Addresses that the kernel may map: all of the lower half but the first and the last 512 GiB, as the layout of an image in
/// memory has it.
pub const ADDRESSES: Region = Region { start: 1 << 39, size: 254 << 39 };

/// Some of these addresses at which there never is anything: between the image and the direct map.
pub const SPARE_ADDRESSES: Region = Region { start: 63 << 39, size: 1 << 39 };

/// The descriptor of the machine's memory.
pub const MEMORY: u32 = 0;

/// The first descriptor of [`kick`].
pub const FIRST_KICK: u32 = 1;

/// Most queues of a device that have a descriptor; others are notified by [`WRITE`].
pub const KICKED_QUEUES: u32 = 8;

/// The descriptor (eventfd) by which the device with this line is told to look at a queue.
#[must_use]
pub const fn kick(line: u32, queue: u32) -> u32 {
    FIRST_KICK + line * KICKED_QUEUES + queue
}

/// Where physical memory is in the file [`MEMORY`]: there is no hole in it.
#[must_use]
pub const fn memory_offset(physical: u64) -> u64 {
    if physical < HOLE.start { physical } else { physical - HOLE.size }
}

/// SIGUSR1: another CPU has set a bit of [`Cpu::raised`].
pub const INTERRUPT: u32 = 10;

/// SIGUSR2: the hypervisor has set a bit of [`Cpu::raised`] of CPU 0.
pub const DEVICE: u32 = 12;

/// SIGALRM: [`Cpu::timer`] has expired.
pub const TIMER: u32 = 14;

/// The number of a system call that Linux does not have and that the hypervisor answers. The first argument says what is
/// meant: [`READ`], [`WRITE`] or [`OUT`].
pub const CALL: u64 = 0x6865;

/// Reads device registers: address, size (1, 2, 4 or 8 bytes). The result is what was read.
pub const READ: u64 = 0;

/// Writes device registers: address, size (1, 2, 4 or 8 bytes), value.
pub const WRITE: u64 = 1;

/// Writes a string of bytes to a port: the port with, from bit 16 on, the number of bytes; then up to [`OUT_SIZE`] bytes in four
/// words.
pub const OUT: u64 = 2;

/// Most bytes of one [`OUT`].
pub const OUT_SIZE: usize = 32;

/// A CPU runs code: only a signal makes it look at [`Cpu::raised`].
pub const BUSY: u32 = 0;

/// A CPU is about to wait, or waits, for [`Cpu::idle`] to change (`FUTEX_WAIT`).
pub const WAITING: u32 = 1;

/// A CPU does nothing but look at [`Cpu::raised`] again and again: nothing need be done.
pub const LOOKING: u32 = 2;

/// The CPUs, at physical address 0: one page.
pub type Cpus = [Cpu; MAX_CPUS];

/// A CPU, as its kernel, other CPUs and the hypervisor see it.
///
/// The first five fields are what `timer_create` reads (`struct sigevent`), so that this page is all the memory that setting up
/// the process takes.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Cpu {
    /// Zero.
    pub value: AtomicU64,
    /// [`TIMER`].
    pub signal: AtomicU32,
    /// `SIGEV_THREAD_ID`.
    pub notify: AtomicU32,
    /// The thread's identifier.
    pub thread: AtomicU32,
    /// The timer (`timer_create`, `CLOCK_MONOTONIC`) that sends [`TIMER`] to this thread.
    pub timer: AtomicU32,
    /// Interrupt lines that were raised, a bit each. Who finds them all clear also tells the CPU, in the way that `idle` says.
    pub raised: AtomicU32,
    /// What the CPU does: [`BUSY`], [`WAITING`] or [`LOOKING`]. Who tells it something makes it [`BUSY`].
    pub idle: AtomicU32,
    /// Not 0 once the CPU is to start, which waits for that (`FUTEX_WAIT`). The next three fields are set before.
    pub started: AtomicU32,
    /// Zero.
    pub reserved: AtomicU32,
    /// Where it starts.
    pub entry: AtomicU64,
    /// Its stack pointer then.
    pub stack: AtomicU64,
    /// What is in the first argument's register then.
    pub argument: AtomicU64,
}

const _: () = assert!(size_of::<Cpus>() == 4096, "a page");

#[cfg(test)]
mod tests {
    use super::{kick, memory_offset};
    use crate::machine::{HOLE, LINES};

    #[test]
    fn memory_has_no_hole_in_its_file() {
        assert_eq!(memory_offset(HOLE.start - 1), HOLE.start - 1);
        assert_eq!(memory_offset(HOLE.end()), HOLE.start);
    }

    #[test]
    fn each_queue_has_a_descriptor_of_its_own() {
        assert_eq!(kick(0, 0), 1);
        assert!(kick(3, 7) < kick(4, 0));
        assert!(kick(LINES - 1, 7) < 200, "processes have few descriptors");
    }
}
