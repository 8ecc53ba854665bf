//! Monotonic and wall-clock time, in nanoseconds, from the processor's counter ([`crate::arch::counter`]).
//!
//! If the counter's frequency must be measured, that happens on the first reading of a clock: a program that reads
//! no clock does not wait for it.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};

use hermit_clock::{NANOSECONDS, TickScale};
use hermit_interface::boot_info::BootInfo;
use spin::Once;

use crate::arch::counter::{self, BootCounter};
use crate::interrupts::Masked;
use crate::ops;

/// Conversion of the counter into time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The counter's value when the kernel started.
    start: u64,
    scale: TickScale,
}

/// The counter at the start of the kernel, and what the boot information says of it.
#[derive(Debug)]
struct BootTime {
    counter: u64,
    boot: BootCounter,
    /// Nanoseconds since 1970 (UTC) at [`BootCounter::at_wall_clock`]; 0 if unknown.
    wall_clock: u64,
}

static BOOT_TIME: Once<BootTime> = Once::new();
static CLOCK: Once<Clock> = Once::new();
/// Nanoseconds since 1970 (UTC) at the monotonic clock's zero.
static WALL_CLOCK: Once<u64> = Once::new();

/// The multiplier of [`CLOCK`]'s scale, for the fast path of [`monotonic`]; 0 before the first reading, and always
/// if the counters of the CPUs are not synchronized.
static MULTIPLIER: AtomicU64 = AtomicU64::new(0);
/// The start of [`CLOCK`], for the fast path.
static BASE: AtomicU64 = AtomicU64::new(0);

/// The counters of the CPUs need not agree.
static IS_UNSYNCHRONIZED: AtomicBool = AtomicBool::new(false);
/// The latest monotonic time that was returned, if counters do not agree.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// Starts the monotonic clock.
pub(crate) fn init(info: &BootInfo) {
    BOOT_TIME.call_once(|| BootTime {
        counter: counter::now(),
        boot: counter::from_boot(info),
        wall_clock: info.wall_clock,
    });
}

/// Prepares for other CPUs that read the clock.
pub(crate) fn prepare_for_smp() {
    let is_synchronized = counter::is_synchronized()
        || ops::time_source().host_clock().is_some_and(|host| host.is_synchronized);
    if !is_synchronized {
        IS_UNSYNCHRONIZED.store(true, Relaxed);
        MULTIPLIER.store(0, Relaxed);
    }
}

fn boot_time() -> &'static BootTime {
    BOOT_TIME.get().expect("the clock starts when the kernel does")
}

#[cold]
fn first_reading() -> &'static Clock {
    CLOCK.call_once(|| {
        let start = boot_time();
        let by_host = || ops::time_source().host_clock().map(|host| host.frequency);
        let known = start.boot.frequency.or_else(by_host).or_else(counter::frequency);
        let frequency = known.unwrap_or_else(|| ops::time_source().measure_counter());
        Clock { start: start.counter, scale: TickScale::new(frequency) }
    })
}

fn clock() -> &'static Clock {
    CLOCK.get().unwrap_or_else(first_reading)
}

/// Nanoseconds since the kernel started. Never decreases, on whichever CPUs it is read.
#[inline]
#[must_use]
pub fn monotonic() -> u64 {
    let multiplier = MULTIPLIER.load(Relaxed);
    if multiplier == 0 {
        return monotonic_slow();
    }
    TickScale::scaled(counter::now().wrapping_sub(BASE.load(Relaxed)), multiplier)
}

/// The slow path: the first reading, and every reading if counters do not agree.
#[cold]
#[inline(never)]
fn monotonic_slow() -> u64 {
    // A preempted thread would keep other CPUs waiting for the first reading.
    let _masked = Masked::new();
    let clock = clock();
    let now = clock.scale.nanoseconds(counter::now().saturating_sub(clock.start));
    if IS_UNSYNCHRONIZED.load(Relaxed) {
        return LATEST.fetch_max(now, Relaxed).max(now);
    }
    BASE.store(clock.start, Relaxed);
    MULTIPLIER.store(clock.scale.multiplier(), Release);
    now
}

/// Converts nanoseconds into ticks of the counter.
pub(crate) fn ticks(duration_ns: u64) -> u64 {
    clock().scale.ticks(duration_ns)
}

/// Nanoseconds since 1970 (UTC).
#[must_use]
pub fn wall_clock() -> u64 {
    WALL_CLOCK.get().unwrap_or_else(first_wall_clock) + monotonic()
}

#[cold]
fn first_wall_clock() -> &'static u64 {
    // As above: a thread of higher priority would spin for ever.
    let _masked = Masked::new();
    WALL_CLOCK.call_once(|| {
        let start = boot_time();
        if start.wall_clock != 0 {
            // The wall clock was read a little before the kernel started.
            let passed = start.counter.saturating_sub(start.boot.at_wall_clock);
            return start.wall_clock + clock().scale.nanoseconds(passed);
        }
        if let Some(host) = ops::time_source().host_clock() {
            let passed = counter::now().saturating_sub(host.counter);
            return (host.wall_clock_ns + clock().scale.nanoseconds(passed)).saturating_sub(monotonic());
        }
        (ops::time_source().real_time_clock() * NANOSECONDS).saturating_sub(monotonic())
    })
}

/// Sets this CPU's timer: its line is raised when the monotonic clock reaches `deadline_ns`, or earlier.
pub fn set_timer(masked: &Masked, deadline_ns: u64) {
    let _ = masked;
    ops::timer().set_timer(deadline_ns.saturating_sub(monotonic()));
}
