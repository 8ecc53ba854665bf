//! Which CPUs there are, and starting them (MultiProcessor Specification 1.4, appendix B.4).

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use hermit_firmware::PlatformInfo;
use hermit_interface::MAX_CPUS;
use spin::Once;

use super::apic::{self, Command};
use crate::arch::startup;
use crate::interrupts::Masked;
use crate::memory::Physical;
use crate::{boot, clock};

/// The APIC identifiers of the CPUs by our numbers; the first CPU is number 0.
static IDS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

static COUNT: Once<u32> = Once::new();

static MACHINE: Once<Option<PlatformInfo>> = Once::new();

/// How long a CPU needs to get over a reset, in nanoseconds; today's need less.
const INIT_TIME: u64 = 200_000;

/// How long to wait before a CPU is told a second time to start.
const START_TIME: u64 = 200_000;

/// How many CPUs there are.
pub(super) fn count() -> u32 {
    *COUNT.call_once(|| {
        if !apic::is_present() {
            return 1;
        }
        match boot::cpus() {
            Some(count) => record(0..count),
            None => machine().map_or(1, |machine| record(machine.cpus.iter().copied())),
        }
    })
}

/// What the firmware says about the machine.
pub(super) fn machine() -> Option<&'static PlatformInfo> {
    MACHINE.call_once(|| hermit_firmware::platform_info(&Physical, boot::rsdp())).as_ref()
}

/// Numbers the CPUs with these APIC identifiers, and says how many there are.
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

/// The APIC identifier of a CPU.
pub(super) fn apic_id(cpu: u32) -> u32 {
    IDS.get(cpu as usize).map_or(0, |id| id.load(Relaxed))
}

/// A CPU has started under this number: CPUs take their numbers in the order in which they get there.
pub(super) fn started(cpu: u32) {
    if let Some(slot) = IDS.get(cpu as usize) {
        slot.store(apic::id(), Relaxed);
    }
}

/// Starts all CPUs but the first. Those that cannot be started are missing later, no more.
pub(super) fn start_others(main: fn(u32) -> !) {
    let count = count();
    if count == 1 {
        return;
    }
    let Some((page, count)) = startup::prepare_real_mode(count, main) else { return };
    // The numbers that CPUs take when they get here change the table.
    let ids: [u32; MAX_CPUS] = core::array::from_fn(|cpu| IDS[cpu].load(Relaxed));
    let each = |command: Command| {
        for &id in ids[..count as usize].iter().skip(1) {
            let _masked = Masked::new();
            apic::send(id, command);
        }
    };
    each(Command::Init);
    wait(INIT_TIME);
    each(Command::Start(page));
    wait(START_TIME);
    // A CPU that has started ignores this.
    each(Command::Start(page));
}

fn wait(nanoseconds: u64) {
    let end = clock::monotonic() + nanoseconds;
    while clock::monotonic() < end {
        core::hint::spin_loop();
    }
}
