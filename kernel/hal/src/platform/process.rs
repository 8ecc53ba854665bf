//! A process of Linux that uhyve has made ([`hermit_interface::process`]).
//!
//! | concern | by |
//! | --- | --- |
//! | exceptions, interrupts | signals |
//! | CPUs | threads |
//! | idle CPUs, reschedule IPI | futexes; a signal if the CPU is busy |
//! | page tables | `mmap`, `munmap`, `mprotect`; Linux flushes the TLBs |
//! | device registers, ports | calls of uhyve; queues are notified by eventfds |
//!
//! Linux may move each of these threads between processors, and preempt it for a while.

mod cpus;
mod linux;
mod signals;
mod spare_mappings;

use core::ptr::with_exposed_provenance;

use hermit_clock::HostTime;
use hermit_interface::boot_info::BootInfo;
use hermit_interface::exit::{NOT_STARTED, QUIT_PORT, SHUTDOWN_HANDLED_PORT, STATUS_PORT};
use hermit_interface::machine::{ERROR_TEXT_PORT, HOLE, POWER_BUTTON_LINE, RETURN_PORT, TEXT_PORT};
use hermit_interface::process::{
    MAX_EVENTFD_QUEUES, OUT, OUT_SIZE, READ, SharedCpus, TRY_OUT, WRITE, queue_eventfd,
};
use hermit_interface::to_usize;
use hermit_paging::{Access, FlushScope};
use hermit_virtio::transport::pci::{ConfigSpace, MsiMessage};

use super::{uhyve_clock, uhyve_return};
use crate::arch::processor::Processor;
use crate::arch::x86_64::{context, cpu};
use crate::fallible::OutOfMemory;
use crate::interrupts::RESCHEDULE;
use crate::ops::{
    CpuControl, CpuTimer, DeviceAccess, IrqChip, MemoryReturn, Mmu, Platform, PlatformConsole, Power,
    RegisterAccess, RegisterIo, Smp, Stream, TimeSource,
};

/// Bytes of a device's registers.
const REGISTERS_SIZE: u64 = 0x1000;

/// Offset of `QueueNotify` (virtio 1.2, section 4.2.2).
const QUEUE_NOTIFY: u64 = 0x50;

/// A process of Linux.
#[derive(Debug)]
pub(super) struct Process;

/// Returns the platform, after finding the page of the CPUs that uhyve has prepared.
pub(super) fn find(info: &BootInfo) -> &'static Process {
    let page = with_exposed_provenance::<SharedCpus>(to_usize(info.direct_map.start));
    // SAFETY: uhyve places the page of the CPUs at physical address 0, which the direct map has and which is
    // not free memory (`hermit_interface::process`). Its fields are atomics, so kernel and uhyve can share
    // the page.
    cpus::init(unsafe { &*page });
    &Process
}

/// Writes at most [`OUT_SIZE`] bytes to a port of uhyve with the hypercall `kind`. Returns the hypercall's
/// result.
fn out(kind: u64, port: u16, bytes: &[u8]) -> u64 {
    let mut padded = [0; OUT_SIZE];
    padded[..bytes.len()].copy_from_slice(bytes);
    let (words, _) = padded.as_chunks::<8>();
    let word = |index: usize| words.get(index).map_or(0, |word| u64::from_le_bytes(*word));
    let target = u64::from(port) | (bytes.len() as u64) << 16;
    linux::call_uhyve([kind, target, word(0), word(1), word(2), word(3)])
}

/// Port of a stream's text.
const fn text_port(stream: Stream) -> u16 {
    match stream {
        Stream::Output => TEXT_PORT,
        Stream::Error => ERROR_TEXT_PORT,
    }
}

/// Notifies a device's queue through its eventfd. Returns false if `address` is not a notification register,
/// or if the queue has no eventfd.
fn try_notify(address: u64, queue: u64) -> bool {
    let offset = address.wrapping_sub(HOLE.start);
    let queue = u32::try_from(queue).unwrap_or(MAX_EVENTFD_QUEUES);
    offset % REGISTERS_SIZE == QUEUE_NOTIFY
        && queue < MAX_EVENTFD_QUEUES
        && u32::try_from(offset / REGISTERS_SIZE)
            .is_ok_and(|line| linux::signal_eventfd(queue_eventfd(line, queue)).is_ok())
}

/// See [`PlatformConsole::driverless_writes`]. Initialising a console takes about 50 requests to uhyve;
/// writing a line takes one or two.
const DRIVERLESS_WRITES: u32 = 32;

impl Platform for Process {}

impl PlatformConsole for Process {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        for piece in bytes.chunks(OUT_SIZE) {
            out(OUT, text_port(stream), piece);
        }
    }

    fn try_write(&self, stream: Stream, bytes: &[u8]) -> usize {
        let pieces = bytes.chunks(OUT_SIZE);
        let taken = pieces.take_while(|piece| out(TRY_OUT, text_port(stream), piece) == piece.len() as u64);
        taken.map(<[u8]>::len).sum()
    }

    fn driverless_writes(&self) -> u32 {
        DRIVERLESS_WRITES
    }
}

impl CpuControl for Process {
    fn enter(&self, processor: &Processor) {
        // SAFETY: uhyve makes a process of an image only where Linux has enabled FSGSBASE
        // (`hermit_interface::process`).
        unsafe { processor.local.install_unprivileged() };
        let is_ready = signals::use_stack(processor.stacks)
            && (processor.local.number() != 0 || signals::handle())
            && cpu::adopt();
        if !is_ready {
            self.write(Stream::Error, b"hermit: fatal error: Linux does not let the kernel handle signals\n");
            self.exit(NOT_STARTED);
        }
        // SAFETY: FSGSBASE is enabled in this process, as `cpu::adopt` has checked and WRGSBASE has shown.
        unsafe { context::use_fsgsbase() };
    }

    fn enable_interrupts(&self) {
        signals::unblock_interrupts();
    }

    fn wait_unless(&self, woken: &dyn Fn() -> bool) {
        cpus::wait_unless(woken);
    }

    fn run_deferred(&self) {
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
}

impl Mmu for Process {
    fn init_mappings(&self) -> Result<(), OutOfMemory> {
        spare_mappings::init()
    }

    fn map(&self, address: u64, physical: u64, size: u64, access: Access) -> Result<(), OutOfMemory> {
        // SAFETY: the page tables, which decide what addresses are used for, have mapped these addresses to
        // this memory just now, and they change only under the memory lock, which is held.
        let map = || unsafe { linux::map(address, physical, size, access) };
        spare_mappings::change(map).map_err(|_| OutOfMemory)
    }

    fn unmap(&self, address: u64, size: u64) -> Result<(), OutOfMemory> {
        // SAFETY: the page tables are about to unmap these addresses, which are used no more; the memory lock
        // is held.
        let unmap = || unsafe { linux::unmap(address, size) };
        // Fails if Linux does not allow one more mapping: a hole splits a mapping into two.
        spare_mappings::change(unmap).map_err(|_| OutOfMemory)
    }

    fn protect(&self, address: u64, size: u64, access: Access) -> Result<(), OutOfMemory> {
        // SAFETY: the page tables are about to restrict these addresses in the same way; the memory lock is
        // held.
        let protect = || unsafe { linux::protect(address, size, access) };
        spare_mappings::change(protect).map_err(|_| OutOfMemory)
    }

    fn can_map_more(&self) -> bool {
        spare_mappings::refill()
    }

    fn memory_return(&self) -> MemoryReturn {
        uhyve_return::kind()
    }

    unsafe fn return_memory(&self, physical: u64, size: u64) {
        if let Some(word) = uhyve_return::encode_returned(physical, size) {
            out(OUT, RETURN_PORT, &word.to_le_bytes());
        }
    }

    /// Does nothing: `munmap` and `mprotect` have flushed the TLBs.
    fn flush_tlb(&self, _scope: FlushScope) {}
}

/// Register accesses by calls of uhyve.
#[derive(Debug)]
struct HypercallIo;

impl RegisterIo for HypercallIo {
    fn read(&self, address: u64, size: usize) -> u64 {
        linux::call_uhyve([READ, address, size as u64, 0, 0, 0])
    }

    fn write(&self, address: u64, size: usize, value: u64) {
        if !try_notify(address, value) {
            linux::call_uhyve([WRITE, address, size as u64, value, 0, 0]);
        }
    }
}

impl DeviceAccess for Process {
    fn registers(&self, physical: u64, size: u64) -> Result<Option<RegisterAccess>, OutOfMemory> {
        let end = physical.checked_add(size);
        let is_in_hole = physical >= HOLE.start && end.is_some_and(|end| end <= HOLE.end());
        Ok(is_in_hole.then_some(RegisterAccess::Called { io: &HypercallIo, start: physical }))
    }

    fn pci_config(&self) -> Option<&'static dyn ConfigSpace> {
        None
    }
}

impl IrqChip for Process {
    fn init_irqs(&self) {}

    fn acknowledge(&self, _line: u8) -> bool {
        true
    }

    fn msi_message(&self, _cpu: u32, _line: u8) -> Option<MsiMessage> {
        None
    }
}

impl CpuTimer for Process {
    fn set_timer(&self, timeout_ns: u64) {
        cpus::set_timer(timeout_ns);
    }
}

impl TimeSource for Process {
    fn measure_counter(&self) -> u64 {
        let reason = b"hermit: fatal error: the hypervisor does not say how fast the time-stamp counter is\n";
        self.write(Stream::Error, reason);
        self.exit(NOT_STARTED)
    }

    fn wall_clock(&self) -> Option<HostTime> {
        uhyve_clock::wall_clock()
    }

    fn measured_frequency(&self) -> Option<u64> {
        uhyve_clock::frequency()
    }
}

impl Smp for Process {
    fn init_topology(&self, info: &BootInfo) {
        cpus::set_count(info.cpus);
    }

    fn cpu_count(&self) -> u32 {
        cpus::count()
    }

    fn start_secondary(&self, _prepared: u32) {
        cpus::start_secondary();
    }

    fn init_secondary(&self, _cpu: u32) {}

    fn send_reschedule(&self, cpu: u32) {
        cpus::raise(cpu, RESCHEDULE);
    }

    fn stop_others(&self) {
        cpus::interrupt_others();
    }
}

impl Power for Process {
    fn exit(&self, status: u8) -> ! {
        out(OUT, STATUS_PORT, &[status]);
        out(OUT, QUIT_PORT, &[0]);
        self.stop()
    }

    /// uhyve's output threads process their queues before they exit.
    fn drains_consoles(&self) -> bool {
        true
    }

    fn power_button_line(&self) -> Option<u8> {
        u8::try_from(POWER_BUTTON_LINE).ok()
    }

    fn enable_power_button(&self) {
        out(OUT, SHUTDOWN_HANDLED_PORT, &[1]);
    }

    /// Always true: no other device raises the line.
    fn take_power_button(&self) -> bool {
        true
    }
}
