//! The CPUs of the machine.

use crate::arch::cpu;
use crate::interrupts::Masked;
use crate::{clock, platform};

/// How many there are, at least 1 and at most 64.
#[must_use]
pub fn count() -> u32 {
    platform::current().cpus()
}

/// Starts all but the first one; each calls `main` with its number, some time later, with interrupts masked once. To be
/// called once. A CPU for which there is no memory stays away.
pub fn start_others(main: fn(u32) -> !) {
    if count() > 1 {
        clock::share();
        platform::current().start_others(main);
    }
}

/// Raises [`crate::interrupts::KICK`] on another CPU.
pub fn kick(masked: &Masked, cpu: u32) {
    let _ = masked;
    platform::current().kick(cpu);
}

/// Stops this CPU for good.
pub fn stop() -> ! {
    cpu::stop()
}
