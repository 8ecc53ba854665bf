//! CPU topology, and the start of secondary CPUs (MultiProcessor Specification 1.4, appendix B.4).

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use hermit_firmware::PlatformInfo;
use hermit_interface::MAX_CPUS;
use hermit_interface::boot_info::BootInfo;

use super::apic::{self, Ipi};
use crate::arch::x86_64::startup;
use crate::clock;
use crate::interrupts::Masked;
use crate::memory::{self, PhysicalReader};
use crate::once::Once;

/// APIC identifiers by CPU number; the first CPU is number 0.
static IDS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

static COUNT: Once<u32> = Once::new();

/// The firmware's tables about the machine.
static FIRMWARE: Once<Option<PlatformInfo>> = Once::new();

/// Facts about CPUs in the boot information.
#[derive(Clone, Copy, Debug, Default)]
struct Announced {
    /// Number of CPUs; `None` if unknown. If it is known, the APIC identifiers are the numbers from 0 on.
    cpus: Option<u32>,
    /// Physical address of the ACPI root pointer, if known.
    rsdp: Option<u64>,
}

static ANNOUNCED: Once<Announced> = Once::new();

/// Delay after INIT, in nanoseconds: time for a CPU to reset.
const INIT_DELAY_NS: u64 = 200_000;

/// Delay after a STARTUP IPI, in nanoseconds, before it is repeated.
const STARTUP_DELAY_NS: u64 = 200_000;

/// Stores the facts about CPUs in the boot information.
pub(super) fn init(info: &BootInfo) {
    let cpus = Some(info.cpus).filter(|&count| count != 0);
    let rsdp = Some(info.rsdp).filter(|&address| address != 0);
    ANNOUNCED.call_once(|| Announced { cpus, rsdp });
}

fn announced() -> Announced {
    ANNOUNCED.get().copied().unwrap_or_default()
}

/// Number of CPUs, at least 1.
pub(super) fn count() -> u32 {
    if let Some(count) = COUNT.get() {
        return *count;
    }
    // Masked, since other CPUs spin until this call has made the value: a preempted thread would keep them
    // waiting.
    let _masked = Masked::new();
    *COUNT.call_once(|| {
        if !apic::is_present() {
            return 1;
        }
        match announced().cpus {
            Some(count) => record(0..count),
            None => firmware().map_or(1, |machine| record(machine.cpus.iter().copied())),
        }
    })
}

/// The firmware's tables about the machine.
pub(in crate::platform) fn firmware() -> Option<&'static PlatformInfo> {
    // Masked, since other CPUs spin until this call has made the value: a preempted thread would keep them
    // waiting.
    let _masked = Masked::new();
    FIRMWARE.call_once(|| hermit_firmware::platform_info(&PhysicalReader, announced().rsdp)).as_ref()
}

/// Assigns CPU numbers to these APIC identifiers. Returns the number of CPUs.
fn record(all: impl Iterator<Item = u32>) -> u32 {
    let first = apic::id();
    let others = all.filter(|&id| id != first && apic::can_reach(id));
    let ids = core::iter::once(first).chain(others);
    let mut count = 0;
    for (slot, id) in IDS.iter().zip(ids) {
        slot.store(id, Relaxed);
        count += 1;
    }
    count
}

/// APIC identifier of a CPU.
pub(in crate::platform) fn apic_id(cpu: u32) -> u32 {
    IDS.get(cpu as usize).map_or(0, |id| id.load(Relaxed))
}

/// Sends an IPI to the CPUs in a mask. Interrupts must be masked.
pub(super) fn send(cpus: u64, ipi: Ipi) {
    for cpu in (0..u64::BITS).filter(|cpu| cpus & 1 << cpu != 0) {
        apic::send(apic_id(cpu), ipi);
    }
}

/// Stores the APIC identifier of the calling CPU under its number. This is necessary because CPUs take
/// numbers in the order in which they start.
pub(in crate::platform) fn started(cpu: u32) {
    if let Some(slot) = IDS.get(cpu as usize) {
        slot.store(apic::id(), Relaxed);
    }
}

/// Starts the CPUs 1 to `prepared - 1`. CPUs that do not start stay unused.
pub(super) fn start_secondary(prepared: u32) {
    if prepared <= 1 {
        return;
    }
    let Some(page) = memory::trampoline_page(startup::trampoline) else { return };
    // A STARTUP IPI contains the page number, which fits into 8 bits below 1 MiB.
    let Ok(page) = u8::try_from(page >> 12) else { return };
    // Copies the table, since CPUs change it as they start.
    let ids: [u32; MAX_CPUS] = core::array::from_fn(|cpu| IDS[cpu].load(Relaxed));
    let send_to_each = |ipi: Ipi| {
        for &id in ids.iter().take(prepared as usize).skip(1) {
            let _masked = Masked::new();
            apic::send(id, ipi);
        }
    };
    send_to_each(Ipi::Init);
    delay(INIT_DELAY_NS);
    send_to_each(Ipi::Startup(page));
    delay(STARTUP_DELAY_NS);
    // A CPU that has already started ignores the second STARTUP IPI.
    send_to_each(Ipi::Startup(page));
}

fn delay(duration_ns: u64) {
    let end = clock::monotonic() + duration_ns;
    while clock::monotonic() < end {
        core::hint::spin_loop();
    }
}
