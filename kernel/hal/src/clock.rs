//! Monotonic and wall-clock time, in nanoseconds, from the time-stamp counter.
//!
//! Where nobody says how fast the counter is, it is measured when somebody first asks for the time: a program
//! that never asks does not wait for it.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};

use hermit_clock::{NANOSECONDS, Scale};
use hermit_interface::boot_info::BootInfo;
use spin::Once;

use crate::arch::{cpu, tsc};
use crate::interrupts::Masked;
use crate::{paravirtual, platform};

/// What turns the counter into time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The counter's value when the kernel started.
    start: u64,
    scale: Scale,
}

/// What the loader says.
#[derive(Debug)]
struct Start {
    tsc: u64,
    frequency: u64,
    wall_clock: u64,
    wall_clock_tsc: u64,
}

static START: Once<Start> = Once::new();
static CLOCK: Once<Clock> = Once::new();
/// The wall clock when the monotonic clock stood at zero.
static WALL_CLOCK: Once<u64> = Once::new();

/// What the usual reading needs, copied from [`CLOCK`]: the multiplier of its scale, 0 as long as there is none or if that
/// is not all that is needed.
static MULTIPLIER: AtomicU64 = AtomicU64::new(0);
/// And its start.
static BASE: AtomicU64 = AtomicU64::new(0);

/// Counters of different CPUs need not agree.
static DISAGREE: AtomicBool = AtomicBool::new(false);
/// The latest time that was told, if counters do not agree.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// The monotonic clock starts here.
pub(crate) fn init(info: &BootInfo) {
    START.call_once(|| Start {
        tsc: tsc::now(),
        frequency: info.tsc_frequency,
        wall_clock: info.wall_clock,
        wall_clock_tsc: info.wall_clock_tsc,
    });
}

/// More CPUs will read the clock.
pub(crate) fn share() {
    // A processor that promises that its counters run alike keeps them in step; and KVM says whether it does.
    let agree = cpu::has_invariant_tsc() || paravirtual::reading().is_some_and(|host| host.is_shared);
    if !agree {
        DISAGREE.store(true, Relaxed);
        MULTIPLIER.store(0, Relaxed);
    }
}

fn start() -> &'static Start {
    START.get().expect("the clock starts when the kernel does")
}

#[cold]
fn first_reading() -> &'static Clock {
    CLOCK.call_once(|| {
        let start = start();
        let known = Some(start.frequency).filter(|&frequency| frequency != 0);
        let known =
            known.or_else(|| paravirtual::reading().map(|host| host.frequency)).or_else(tsc::frequency);
        let frequency = known.unwrap_or_else(|| platform::current().measure_tsc());
        Clock { start: start.tsc, scale: Scale::new(frequency) }
    })
}

fn clock() -> &'static Clock {
    CLOCK.get().unwrap_or_else(first_reading)
}

/// Nanoseconds since the kernel started. Never goes back, whichever CPU asks.
#[inline]
#[must_use]
pub fn monotonic() -> u64 {
    let multiplier = MULTIPLIER.load(Relaxed);
    if multiplier == 0 {
        return monotonic_slowly();
    }
    Scale::scaled(tsc::now().wrapping_sub(BASE.load(Relaxed)), multiplier)
}

/// The first time, or if counters do not agree.
#[cold]
#[inline(never)]
fn monotonic_slowly() -> u64 {
    // Not to be preempted while others may have to wait for the first reading.
    let _masked = Masked::new();
    let clock = clock();
    let now = clock.scale.nanoseconds(tsc::now().saturating_sub(clock.start));
    if DISAGREE.load(Relaxed) {
        return LATEST.fetch_max(now, Relaxed).max(now);
    }
    BASE.store(clock.start, Relaxed);
    MULTIPLIER.store(clock.scale.multiplier(), Release);
    now
}

/// The ticks of the time-stamp counter that so many nanoseconds take.
pub(crate) fn ticks(nanoseconds: u64) -> u64 {
    clock().scale.ticks(nanoseconds)
}

/// Nanoseconds since 1970 (UTC).
#[must_use]
pub fn wall_clock() -> u64 {
    WALL_CLOCK.get().unwrap_or_else(first_wall_clock) + monotonic()
}

#[cold]
fn first_wall_clock() -> &'static u64 {
    WALL_CLOCK.call_once(|| {
        let start = start();
        if start.wall_clock != 0 {
            // The counter stood at `wall_clock_tsc` a little before the kernel started.
            let passed = start.tsc.saturating_sub(start.wall_clock_tsc);
            return start.wall_clock + clock().scale.nanoseconds(passed);
        }
        if let Some(host) = paravirtual::reading() {
            let passed = tsc::now().saturating_sub(host.tsc);
            return (host.date + clock().scale.nanoseconds(passed)).saturating_sub(monotonic());
        }
        (platform::current().wall_clock() * NANOSECONDS).saturating_sub(monotonic())
    })
}

/// Raises the line of this CPU's timer at this moment of the monotonic clock, or earlier.
pub fn set_timer(masked: &Masked, deadline: u64) {
    let _ = masked;
    platform::current().set_timer(deadline.saturating_sub(monotonic()));
}
