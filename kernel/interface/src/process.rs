//! The platform `process`: the kernel runs in a Linux process that uhyve sets up, without hardware
//! virtualisation. This module describes the process's environment and the system calls that it may use.
//!
//! The machine is the one of [`crate::machine`], except for everything that needs privileged instructions.
//! Memory is an open file ([`MEMORY`], [`memory_offset`]). Before the first instruction of the kernel, it is
//! mapped as the page tables of the boot information specify. No hardware reads these tables: when the kernel
//! changes the tables, it must also change the mappings. Device registers and ports are accessed by [`CALL`].
//! CPUs are threads, and all of them exist from the start. CPU 0 is the main thread of the process; the
//! others wait for [`SharedCpu::started`]. Each CPU enters the kernel with FS base and GS base 0, and with
//! all signals blocked except those of exceptions and of terminal stops. On CPUs other than CPU 0, [`DEVICE`]
//! stays blocked. Page faults and other exceptions arrive as Linux signals.
//!
//! seccomp allows the kernel only these system calls. It kills the process for any other system call:
//!
//! | call | with |
//! | --- | --- |
//! | [`CALL`] | anything |
//! | `futex` | `FUTEX_WAIT`, `FUTEX_WAKE`, not private |
//! | `tgkill` | this process, [`INTERRUPT`] |
//! | `mmap` | an address in the direct map of the memory or in [`BootInfo::free_addresses`], at most as many bytes as
//! the memory has; no access, or reading with or without writing or executing; `MAP_SHARED` and
//! `MAP_FIXED`, perhaps `MAP_POPULATE`; [`MEMORY`] |
//! | `mprotect` | an address in [`ADDRESSES`], an access as for `mmap` |
//! | `munmap` | an address in [`ADDRESSES`] |
//! | `rt_sigaction`, `rt_sigprocmask`, `sigaltstack`, `rt_sigreturn` | anything |
//! | `timer_settime` | anything |
//! | `write` | eight bytes, to [`queue_eventfd`] |
//! | `sched_yield`, `restart_syscall` | |
//!
//! [`BootInfo::free_addresses`]: crate::boot_info::BootInfo::free_addresses

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::MAX_CPUS;
use crate::boot_info::Region;
use crate::machine::HOLE;

/// Virtual addresses of all mappings of the kernel: the lower half without its first and its last 512 GiB.
pub const ADDRESSES: Region = Region { start: 1 << 39, size: 254 << 39 };

/// File descriptor of the machine's memory.
pub const MEMORY: u32 = 0;

/// First file descriptor of [`queue_eventfd`].
pub const FIRST_QUEUE_EVENTFD: u32 = 1;

/// Maximum number of queues of a device that have an eventfd. Other queues are notified by [`WRITE`].
pub const MAX_EVENTFD_QUEUES: u32 = 8;

/// File descriptor of the eventfd by which the driver notifies a queue of the device with this interrupt
/// line.
#[must_use]
pub const fn queue_eventfd(line: u32, queue: u32) -> u32 {
    FIRST_QUEUE_EVENTFD + line * MAX_EVENTFD_QUEUES + queue
}

/// Converts a physical address to an offset in the file [`MEMORY`]. Unlike physical memory, the file has no
/// hole.
#[must_use]
pub const fn memory_offset(physical: u64) -> u64 {
    if physical < HOLE.start { physical } else { physical - HOLE.size }
}

/// SIGUSR1: another CPU has set a bit of [`SharedCpu::raised`]. This signal takes the place of an IPI.
pub const INTERRUPT: u32 = 10;

/// SIGUSR2: the hypervisor has set a bit of CPU 0's [`SharedCpu::raised`]. This signal takes the place of a
/// device interrupt.
pub const DEVICE: u32 = 12;

/// SIGALRM: [`SharedCpu::timer`] has expired.
pub const TIMER: u32 = 14;

/// Number of a hypercall: a system call that Linux does not have, which the hypervisor intercepts. The first
/// argument selects the operation: [`READ`], [`WRITE`], [`OUT`] or [`TRY_OUT`].
pub const CALL: u64 = 0x6865;

/// Reads a device register: address, size (1, 2, 4 or 8 bytes). Returns its value.
pub const READ: u64 = 0;

/// Writes a device register: address, size (1, 2, 4 or 8 bytes), value.
pub const WRITE: u64 = 1;

/// Writes a string of bytes to a port: the port, with the number of bytes in bits 16 and above; then up to
/// [`OUT_SIZE`] bytes in four registers.
pub const OUT: u64 = 2;

/// Does [`OUT`] to a text port if the host accepts the text without waiting. Returns the number of bytes that
/// the host has accepted: all or 0.
pub const TRY_OUT: u64 = 3;

/// Maximum number of bytes of one [`OUT`] or [`TRY_OUT`].
pub const OUT_SIZE: usize = 32;

/// The CPU runs code: it checks [`SharedCpu::raised`] only on a signal.
pub const BUSY: u32 = 0;

/// The CPU is idle: it waits, or is about to wait, for [`SharedCpu::idle`] to change (`FUTEX_WAIT`).
pub const WAITING: u32 = 1;

/// The CPU is idle and polls [`SharedCpu::raised`] (halt polling): it needs no wake-up.
pub const POLLING: u32 = 2;

/// Shared state of all CPUs, at physical address 0: one page.
pub type SharedCpus = [SharedCpu; MAX_CPUS];

/// State of a CPU that its kernel, other CPUs and the hypervisor share.
///
/// The first four fields are the `struct sigevent` that `timer_create` reads, so that setting up the process
/// needs no memory besides this page.
#[derive(Debug, Default)]
#[repr(C)]
pub struct SharedCpu {
    /// Zero (`sigev_value`).
    pub value: AtomicU64,
    /// [`TIMER`] (`sigev_signo`).
    pub signal: AtomicU32,
    /// `SIGEV_THREAD_ID` (`sigev_notify`).
    pub notify: AtomicU32,
    /// Thread ID of the CPU's thread (`sigev_notify_thread_id`).
    pub thread: AtomicU32,
    /// ID of the timer (`timer_create`, `CLOCK_MONOTONIC`) that sends [`TIMER`] to this thread.
    pub timer: AtomicU32,
    /// Pending interrupt lines, a bit for each. A writer that finds all bits clear must also notify the CPU.
    /// `idle` says how.
    pub raised: AtomicU32,
    /// Idle state: [`BUSY`], [`WAITING`] or [`POLLING`]. A writer that notifies the CPU sets it to [`BUSY`].
    pub idle: AtomicU32,
    /// The CPU waits until this is not 0 (`FUTEX_WAIT`). A writer starts the CPU by setting it, after it has
    /// set the last three fields.
    pub started: AtomicU32,
    /// Zero.
    pub reserved: AtomicU32,
    /// Entry point.
    pub entry: AtomicU64,
    /// Stack pointer at the entry point.
    pub stack: AtomicU64,
    /// First argument register (`rdi`) at the entry point.
    pub argument: AtomicU64,
}

const _: () = assert!(size_of::<SharedCpus>() == 4096, "the CPUs fit a page");

#[cfg(test)]
mod tests {
    use super::{memory_offset, queue_eventfd};
    use crate::machine::{HOLE, LINES};

    #[test]
    fn memory_file_has_no_hole() {
        assert_eq!(memory_offset(HOLE.start - 1), HOLE.start - 1);
        assert_eq!(memory_offset(HOLE.end()), HOLE.start);
    }

    #[test]
    fn each_queue_has_its_own_eventfd() {
        assert_eq!(queue_eventfd(0, 0), 1);
        assert!(queue_eventfd(3, 7) < queue_eventfd(4, 0));
        assert!(queue_eventfd(LINES - 1, 7) < 200, "descriptors stay below RLIMIT_NOFILE");
    }
}
