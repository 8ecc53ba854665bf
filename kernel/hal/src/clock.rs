//! Monotonic and wall-clock time, in nanoseconds, from the time-stamp counter.
//!
//! Where nobody says how fast the counter is, it is measured when somebody first asks for the time: a program
//! that never asks does not wait for it.

use hermit_clock::{NANOSECONDS, Scale};
use hermit_interface::boot_info::BootInfo;
use spin::Once;

use crate::arch::tsc;
use crate::{interrupts, platform};

/// The counter's value when the kernel started, and what the loader says about it.
#[derive(Debug)]
struct Start {
    tsc: u64,
    frequency: u64,
    wall_clock: u64,
    wall_clock_tsc: u64,
}

static START: Once<Start> = Once::new();
static SCALE: Once<Scale> = Once::new();
/// The wall clock when the monotonic clock stood at zero.
static WALL_CLOCK: Once<u64> = Once::new();

/// The monotonic clock starts here.
pub(crate) fn init(info: &BootInfo) {
    START.call_once(|| Start {
        tsc: tsc::now(),
        frequency: info.tsc_frequency,
        wall_clock: info.wall_clock,
        wall_clock_tsc: info.wall_clock_tsc,
    });
}

fn start() -> &'static Start {
    START.get().expect("the clock starts when the kernel does")
}

fn scale() -> &'static Scale {
    SCALE.call_once(|| {
        let known = Some(start().frequency).filter(|&frequency| frequency != 0);
        let frequency = known.or_else(tsc::frequency).unwrap_or_else(|| platform::current().measure_tsc());
        Scale::new(frequency)
    })
}

/// Nanoseconds since the kernel started. Never goes back.
#[must_use]
pub fn monotonic() -> u64 {
    // The first call measures; the counter is read after that.
    let scale = scale();
    scale.nanoseconds(tsc::now().saturating_sub(start().tsc))
}

/// Nanoseconds since 1970 (UTC).
#[must_use]
pub fn wall_clock() -> u64 {
    let offset = WALL_CLOCK.call_once(|| {
        let start = start();
        if start.wall_clock == 0 {
            return (platform::current().wall_clock() * NANOSECONDS).saturating_sub(monotonic());
        }
        // The counter stood at `wall_clock_tsc` a little before the kernel started.
        start.wall_clock + scale().nanoseconds(start.tsc.saturating_sub(start.wall_clock_tsc))
    });
    offset + monotonic()
}

/// Waits for an interrupt, but not beyond this moment of the monotonic clock. May return early.
pub fn wait_until(deadline: u64) {
    let now = monotonic();
    if now < deadline {
        platform::current().set_timer(deadline - now);
        interrupts::wait();
    }
}
