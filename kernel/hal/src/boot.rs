//! What the loader said.

use core::ptr::with_exposed_provenance;
use core::slice;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use hermit_interface::boot_info::{BootInfo, Parsed};
use hermit_interface::to_usize;

use crate::{clock, exit, memory, platform, symbols};

/// The proof that processor, memory and platform are ready, with what the loader said.
#[derive(Debug)]
pub struct Boot {
    /// What the loader said.
    pub info: Parsed<'static>,
}

static RSDP: AtomicU64 = AtomicU64::new(0);

static CPUS: AtomicU32 = AtomicU32::new(0);

/// How many CPUs there are, with the APIC identifiers from 0 on, if the loader says so.
pub(crate) fn cpus() -> Option<u32> {
    Some(CPUS.load(Relaxed)).filter(|&count| count != 0)
}

/// The physical address of the ACPI root pointer, if the loader knows it.
pub(crate) fn rsdp() -> Option<u64> {
    Some(RSDP.load(Relaxed)).filter(|&address| address != 0)
}

/// The boot information at `address`, which is not checked yet.
pub(crate) fn find(address: u64) -> &'static BootInfo {
    let start = with_exposed_provenance::<BootInfo>(to_usize(address));
    // SAFETY: the loader leaves the boot information at this address, aligned and initialised, in memory that is
    // not free; nobody writes it.
    unsafe { &*start }
}

/// Reads the boot information and makes everything ready that depends on it.
pub(crate) fn init(fixed: &'static BootInfo) -> Boot {
    let start = (&raw const *fixed).expose_provenance();
    let start = with_exposed_provenance::<u8>(start);
    // SAFETY: as in `find`; the parts behind the fixed one are as long as it says, and the address that the loader gave is that
    // of all of them.
    let bytes = unsafe { slice::from_raw_parts(start, fixed.size()) };
    let info = match BootInfo::parse(bytes) {
        Ok(info) => info,
        // Without boot information there is no console either.
        Err(_) => exit::without_platform(),
    };
    RSDP.store(info.fixed.rsdp, Relaxed);
    CPUS.store(info.fixed.cpus, Relaxed);
    platform::current().init();
    memory::init(&info);
    symbols::init(info.fixed);
    clock::init(info.fixed);
    platform::current().init_interrupts();
    crate::interrupts::enable();
    Boot { info }
}
