//! From the loader to a working hal: boot information, and initialisation in order.

use core::ptr::with_exposed_provenance;
use core::slice;

use hermit_interface::boot_info::{BootInfo, Parsed};
use hermit_interface::to_usize;

use crate::arch::processor::Processor;
use crate::cpu_local::BOOT_CPU;
use crate::ops;
use crate::{clock, initramfs, interrupts, memory, platform, symbols, tlb};

/// The proof that processor, memory and platform are initialised, with the boot information.
#[derive(Debug)]
pub struct Boot {
    /// The boot information.
    pub info: Parsed<'static>,
}

/// Called by the entry point ([`crate::entry!`]) with the address of the boot information: initialises the
/// first CPU, then everything else.
///
/// # Safety
///
/// This must be called once, before anything else of this crate, with the address that the loader has passed
/// to the entry point, in the state that `hermit_interface::boot_info` describes.
#[doc(hidden)]
#[must_use]
pub unsafe fn start(info: u64) -> Boot {
    // SAFETY: the address is the loader's (contract).
    let info = unsafe { find(info) };
    platform::choose(info);
    ops::cpu().enter(&Processor::first(BOOT_CPU.base()));
    init(info)
}

/// The boot information at `address`, which is not checked yet.
///
/// # Safety
///
/// The address must be the one that the loader has passed.
unsafe fn find(address: u64) -> &'static BootInfo {
    let start = with_exposed_provenance::<BootInfo>(to_usize(address));
    // SAFETY: by its contract (`hermit_interface::boot_info`) the loader leaves the boot information at this
    // address, aligned and initialised, in memory that is not free; so nothing writes to it.
    unsafe { &*start }
}

fn init(fixed: &'static BootInfo) -> Boot {
    let start = (&raw const *fixed).expose_provenance();
    let start = with_exposed_provenance::<u8>(start);
    // SAFETY: the loader writes the variable parts directly after the fixed one, in the same memory, and the
    // fixed part has their length. The provenance is that of the loader's address, which covers all of it,
    // and nothing writes to it.
    let bytes = unsafe { slice::from_raw_parts(start, fixed.size()) };
    let Ok(info) = BootInfo::parse(bytes) else { platform::exit_without_boot_info() };
    ops::smp().init_topology(info.fixed);
    ops::console().init();
    tlb::init();
    if memory::init(&info).is_err() {
        platform::exit_without_boot_info();
    }
    symbols::init(info.fixed);
    initramfs::init(info.fixed);
    clock::init(info.fixed);
    ops::irq_chip().init_irqs();
    interrupts::enable();
    Boot { info }
}
