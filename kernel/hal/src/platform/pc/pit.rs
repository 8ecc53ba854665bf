//! The interval timer (Intel 8254 data sheet), whose channel 2 is a reference for the time-stamp counter.

use super::calibration::Reference;
use crate::arch::x86_64::port::Register;

/// A register of the timer, or the system control port, which gates channel 2.
const fn timer(port: u16) -> Register {
    // SAFETY: the timer does no DMA, and the bits of the system control port that are written here only gate
    // channel 2 and the speaker; so no access affects memory.
    unsafe { Register::new(port) }
}

const CHANNEL_2: Register = timer(0x42);
const COMMAND: Register = timer(0x43);
const SYSTEM_CONTROL: Register = timer(0x61);

/// Ticks per second.
const FREQUENCY: u64 = 1_193_182;
/// Channel 2, low byte then high byte, mode 0: counts down once.
const CHANNEL_2_ONCE: u8 = 0b1011_0000;
const LATCH_CHANNEL_2: u8 = 0b1000_0000;
const GATE_2: u8 = 1 << 0;
const SPEAKER: u8 = 1 << 1;

/// Starts channel 2, which wraps around after 55 ms.
pub(super) fn start() -> Reference<fn() -> u64> {
    SYSTEM_CONTROL.write(SYSTEM_CONTROL.read() & !SPEAKER | GATE_2);
    COMMAND.write(CHANNEL_2_ONCE);
    // The initial count, low byte then high byte: the maximum.
    CHANNEL_2.write(u8::MAX);
    CHANNEL_2.write(u8::MAX);
    Reference { frequency: FREQUENCY, read }
}

/// Ticks since the start.
fn read() -> u64 {
    COMMAND.write(LATCH_CHANNEL_2);
    let low = CHANNEL_2.read();
    u64::from(u16::MAX - u16::from_le_bytes([low, CHANNEL_2.read()]))
}
