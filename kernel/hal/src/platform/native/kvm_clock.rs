//! KVM's paravirtual clock (Linux, `Documentation/virt/kvm/x86/msr.rst`). It provides the frequency of the
//! time-stamp counter and the host's time of day.

use hermit_clock::HostTime;
use hermit_clock::paravirtual::{PvClock, WallClock, is_consistent};
use x86_64::registers::model_specific::Msr;

use crate::arch::counter;
use crate::arch::x86_64::cpu;
use crate::memory::HostPage;
use crate::once::Once;
use crate::ops::HostClock;
use crate::sync::SpinLock;

/// KVM's signature in CPUID.
const KVM: [u32; 3] =
    [u32::from_le_bytes(*b"KVMK"), u32::from_le_bytes(*b"VMKV"), u32::from_le_bytes(*b"M\0\0\0")];

/// `KVM_FEATURE_CLOCKSOURCE2`: the MSRs below exist.
const CLOCK_FEATURE: u32 = 1 << 3;

/// `PVCLOCK_TSC_STABLE_BIT`: the time is monotonic across CPUs.
const TSC_STABLE: u8 = 1 << 0;

/// `MSR_KVM_WALL_CLOCK_NEW`: the host writes the time of day at which the machine started to the address.
const WALL_CLOCK: u32 = 0x4b56_4d00;
/// `MSR_KVM_SYSTEM_TIME_NEW`: the host updates the time at the address from now on, if bit 0 is set.
const SYSTEM_TIME: u32 = 0x4b56_4d01;

/// Maximum number of attempts to read a value while the host does not write it.
const MAX_ATTEMPTS: usize = 100;

/// Offset of the wall clock in the page; the system time is at its start.
const WALL_CLOCK_OFFSET: usize = 64;

/// Held during a reading. The lock keeps the thread on its CPU, since each CPU has its own `SYSTEM_TIME`. It
/// also keeps other CPUs from writing `WALL_CLOCK`, which all CPUs share.
static READING: SpinLock<()> = SpinLock::new(());

static AT_START: Once<Option<HostClock>> = Once::new();

/// Facts about the time-stamp counter that the clock states, if the host is KVM and has the clock.
pub(in crate::platform) fn host_clock() -> Option<HostClock> {
    *AT_START.call_once(|| {
        let (clock, _) = read()?;
        Some(HostClock { frequency: clock.frequency()?, is_synchronized: clock.flags & TSC_STABLE != 0 })
    })
}

/// The host's wall clock now, if the host is KVM and has the clock.
pub(in crate::platform) fn wall_clock() -> Option<HostTime> {
    let (clock, start) = read()?;
    clock.frequency()?;
    let system_time = clock.system_time_at(counter::now());
    Some(HostTime::exact(start.nanoseconds().saturating_add(system_time)))
}

fn is_offered() -> bool {
    cpu::hypervisor() == Some(KVM)
        && cpu::hypervisor_leaf(1).is_some_and(|features| features.eax & CLOCK_FEATURE != 0)
}

/// Reads the system time of this CPU, and the time of day at the start of the machine. The host computes the
/// time of day at the start from its clocks at each reading, so that time changes when the host's clock is
/// set.
fn read() -> Option<(PvClock, WallClock)> {
    if !is_offered() {
        return None;
    }
    let page = HostPage::new().ok()?;
    let _reading = READING.lock();
    let (time, wall_clock) = (page.physical(), page.physical() + WALL_CLOCK_OFFSET as u64);
    // SAFETY: the feature bit says that the MSR exists. The host writes the clock's structure to the start of
    // a page that is only ever copied (`HostPage`). It writes until the MSR is cleared below, which happens
    // before the page is freed, and on the same CPU, since the thread does not leave its CPU while it holds a
    // spinlock.
    unsafe { Msr::new(SYSTEM_TIME).write(time | 1) };
    // SAFETY: the feature bit says that the MSR exists. The host writes the structure once, at this moment,
    // inside of the same page.
    unsafe { Msr::new(WALL_CLOCK).write(wall_clock) };
    let clock = repeat(|| PvClock::parse(&page.read(0)), |clock| clock.version);
    let start = repeat(|| WallClock::parse(&page.read(WALL_CLOCK_OFFSET)), |clock| clock.version);
    // SAFETY: bit 0 is clear: the host writes to no address from here on.
    unsafe { Msr::new(SYSTEM_TIME).write(0) };
    Some((clock?, start?))
}

/// Repeats a reading until the host has not written during it. Reads the value three times: if the versions
/// of all three are equal, the second one is consistent.
fn repeat<T>(read: impl Fn() -> T, version: impl Fn(&T) -> u32) -> Option<T> {
    (0..MAX_ATTEMPTS).find_map(|_| {
        let (before, value, after) = (read(), read(), read());
        let is_consistent =
            version(&before) == version(&value) && is_consistent(version(&before), version(&after));
        (is_consistent && version(&value) != 0).then_some(value)
    })
}
