//! The clock that KVM offers (Linux, `Documentation/virt/kvm/x86/msr.rst`), read once: it says how fast the time-stamp
//! counter is, and what the date is.

use hermit_clock::paravirtual::{PvClock, WallClock, stable};
use spin::Once;
use x86_64::registers::model_specific::Msr;

use crate::arch::cpu;
use crate::memory::HostPage;
use crate::platform;

/// What KVM calls itself in CPUID.
const KVM: [u32; 3] =
    [u32::from_le_bytes(*b"KVMK"), u32::from_le_bytes(*b"VMKV"), u32::from_le_bytes(*b"M\0\0\0")];

/// The clock's registers exist (bit 3 of the features).
const CLOCK_FEATURE: u32 = 1 << 3;

/// The time is the same on all CPUs, says the clock's flag.
const ALL_THE_SAME: u8 = 1 << 0;

/// Has the host write the date at which the machine started to an address.
const WALL_CLOCK: u32 = 0x4b56_4d00;
/// Has the host write the time to an address whenever it changes, if bit 0 is set.
const SYSTEM_TIME: u32 = 0x4b56_4d01;

/// How often a reading is tried again during which the host wrote.
const TRIES: usize = 100;

/// Where the date is in the page; the time is at its start.
const DATE_OFFSET: usize = 64;

/// What the host says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Ticks of the time-stamp counter per second.
    pub(crate) frequency: u64,
    /// A moment, by the time-stamp counter.
    pub(crate) tsc: u64,
    /// Nanoseconds since 1970 at that moment.
    pub(crate) date: u64,
    /// The counters of all CPUs show the same.
    pub(crate) is_shared: bool,
}

static READING: Once<Option<Reading>> = Once::new();

/// What the host says, if it is KVM and has the clock.
pub(crate) fn reading() -> Option<Reading> {
    *READING.call_once(|| if is_offered() { read() } else { None })
}

fn is_offered() -> bool {
    platform::current().is_privileged()
        && cpu::hypervisor() == Some(KVM)
        && cpu::hypervisor_leaf(1).is_some_and(|features| features.eax & CLOCK_FEATURE != 0)
}

fn read() -> Option<Reading> {
    let page = HostPage::new().ok()?;
    let (time, date) = (page.physical(), page.physical() + DATE_OFFSET as u64);
    // SAFETY: the register exists, and the host writes to a page that is nobody else's.
    unsafe { Msr::new(SYSTEM_TIME).write(time | 1) };
    // SAFETY: as above.
    unsafe { Msr::new(WALL_CLOCK).write(date) };
    let clock = repeat(|| PvClock::parse(&page.read(0)), |clock| clock.version);
    let start = repeat(|| WallClock::parse(&page.read(DATE_OFFSET)), |clock| clock.version);
    // SAFETY: from here on the host leaves the page alone.
    unsafe { Msr::new(SYSTEM_TIME).write(0) };
    let (clock, start) = (clock?, start?);
    let date = start.nanoseconds() + clock.system_time;
    let is_shared = clock.flags & ALL_THE_SAME != 0;
    Some(Reading { frequency: clock.frequency()?, tsc: clock.tsc_timestamp, date, is_shared })
}

/// Reads until the host did not write meanwhile: the bytes are copied twice, and must be of the same version.
fn repeat<T>(read: impl Fn() -> T, version: impl Fn(&T) -> u32) -> Option<T> {
    (0..TRIES).find_map(|_| {
        let (before, value, after) = (read(), read(), read());
        let good = version(&before) == version(&value) && stable(version(&before), version(&after));
        (good && version(&value) != 0).then_some(value)
    })
}
