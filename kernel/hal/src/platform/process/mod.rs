//! A process of Linux that our hypervisor has made ([`hermit_interface::process`]).
//!
//! | what | how |
//! | --- | --- |
//! | exceptions, interrupts | signals |
//! | CPUs | threads |
//! | idle, other CPUs' lines | futexes; a signal if the CPU is busy |
//! | page tables | `mmap`, `munmap`, `mprotect`; Linux makes all CPUs forget mappings |
//! | registers, ports | calls of the hypervisor; notifications of queues are eventfds |
//!
//! Linux may run each of these threads on any processor, and not run it for a while.

mod cpus;
mod linux;
mod reserve;
mod signals;

use core::ptr::with_exposed_provenance;

use hermit_interface::boot_info::BootInfo;
use hermit_interface::exit::{NOT_STARTED, QUIT_PORT, STATUS_PORT};
use hermit_interface::machine::{HOLE, TEXT_PORT};
use hermit_interface::process::{Cpus, KICKED_QUEUES, OUT, OUT_SIZE, READ, WRITE, kick};
use hermit_interface::to_usize;
use hermit_paging::Access;

use super::Platform;
use crate::arch::processor::Processor;
use crate::arch::{context, cpu, local};
use crate::devices::Window;
use crate::interrupts::KICK;
use crate::memory::OutOfMemory;

/// Size of a device's registers.
const REGISTERS: u64 = 0x1000;

/// Offset of `QueueNotify` (virtio 1.2, section 4.2.2).
const NOTIFY: u64 = 0x50;

/// The process.
#[derive(Debug)]
pub(super) struct Process;

/// Finds what the hypervisor has left for the kernel.
pub(super) fn find(info: &BootInfo) -> &'static dyn Platform {
    let page = with_exposed_provenance::<Cpus>(to_usize(info.direct_map.start));
    // SAFETY: the hypervisor's contract says what is at physical address 0, which is not free; nobody uses it but by
    // atomics.
    cpus::init(unsafe { &*page });
    &Process
}

/// Writes bytes to a port.
fn out(port: u16, bytes: &[u8]) {
    for piece in bytes.chunks(OUT_SIZE) {
        let mut padded = [0; OUT_SIZE];
        padded[..piece.len()].copy_from_slice(piece);
        let (words, _) = padded.as_chunks::<8>();
        let word = |index: usize| words.get(index).map_or(0, |word| u64::from_le_bytes(*word));
        let target = u64::from(port) | (piece.len() as u64) << 16;
        linux::ask([OUT, target, word(0), word(1), word(2), word(3)]);
    }
}

/// Reads a register of a device, of 1, 2 or 4 bytes.
pub(crate) fn read_register(address: u64, size: usize) -> u64 {
    linux::ask([READ, address, size as u64, 0, 0, 0])
}

/// Writes a register of a device, of 1, 2 or 4 bytes.
pub(crate) fn write_register(address: u64, size: usize, value: u64) {
    if !notify(address, value) {
        linux::ask([WRITE, address, size as u64, value, 0, 0]);
    }
}

/// Notifies a device's queue, if it is that what the register is for and the queue has a descriptor.
fn notify(address: u64, queue: u64) -> bool {
    let offset = address.wrapping_sub(HOLE.start);
    let queue = u32::try_from(queue).unwrap_or(KICKED_QUEUES);
    offset % REGISTERS == NOTIFY
        && queue < KICKED_QUEUES
        && u32::try_from(offset / REGISTERS).is_ok_and(|line| linux::signal(kick(line, queue)).is_ok())
}

impl Platform for Process {
    fn enter(&self, processor: &Processor) {
        processor.local.install_unprivileged();
        let is_ready = signals::use_stack(processor.stacks)
            && (local::number() != 0 || signals::handle())
            && cpu::adopt();
        if !is_ready {
            self.write(b"hermit: fatal error: Linux does not let the kernel handle signals\n");
            self.exit(NOT_STARTED);
        }
        context::use_fsgsbase();
    }

    fn is_privileged(&self) -> bool {
        false
    }

    fn enable_interrupts(&self) {
        signals::let_in(local::number());
    }

    fn wait_unless(&self, woken: &dyn Fn() -> bool) {
        cpus::wait_unless(woken);
    }

    fn deferred(&self) {
        cpus::arm_timer();
    }

    fn relax(&self) {
        linux::yield_now();
    }

    fn stop(&self) -> ! {
        let never = core::sync::atomic::AtomicU32::new(0);
        loop {
            linux::wait(&never, 0, None);
        }
    }

    fn map(&self, address: u64, physical: u64, size: u64, access: Access) -> Result<(), OutOfMemory> {
        // SAFETY: page tables say the same since just now; the memory lock is held.
        let map = || unsafe { linux::map(address, physical, size, access) };
        reserve::change(map).map_err(|_| OutOfMemory)
    }

    fn unmap(&self, address: u64, size: u64) -> Result<(), OutOfMemory> {
        // SAFETY: page tables are about to say the same; the memory lock is held.
        let unmap = || unsafe { linux::unmap(address, size) };
        // Fails if Linux has no room to note a hole.
        reserve::change(unmap).map_err(|_| OutOfMemory)
    }

    fn protect(&self, address: u64, size: u64, access: Access) -> Result<(), OutOfMemory> {
        // SAFETY: page tables are about to say the same; the memory lock is held.
        let protect = || unsafe { linux::protect(address, size, access) };
        reserve::change(protect).map_err(|_| OutOfMemory)
    }

    fn can_map_more(&self) -> bool {
        reserve::refill()
    }

    /// Linux has done so.
    fn forget_mappings(&self) {}

    fn registers(&self, physical: u64, size: u64) -> Option<Window> {
        let end = physical.checked_add(size)?;
        (physical >= HOLE.start && end <= HOLE.end()).then(|| Window::called(physical, size))?
    }

    fn init_interrupts(&self) {}

    fn write(&self, bytes: &[u8]) {
        out(TEXT_PORT, bytes);
    }

    fn acknowledge(&self, _line: u8) -> bool {
        true
    }

    fn set_timer(&self, nanoseconds: u64) {
        cpus::set_timer(nanoseconds);
    }

    fn cpus(&self) -> u32 {
        crate::boot::cpus().unwrap_or(1)
    }

    fn start_others(&self, main: fn(u32) -> !) {
        cpus::start_others(self.cpus(), main);
    }

    fn init_cpu(&self, _cpu: u32) {}

    fn kick(&self, cpu: u32) {
        cpus::raise(cpu, KICK);
    }

    fn flush_others(&self) {}

    fn stop_others(&self) {
        cpus::interrupt_others();
    }

    fn exit(&self, status: u8) -> ! {
        out(STATUS_PORT, &[status]);
        out(QUIT_PORT, &[0]);
        self.stop()
    }
}
