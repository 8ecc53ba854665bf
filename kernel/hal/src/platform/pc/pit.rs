//! The interval timer (Intel 8254 data sheet), of which channel 2 is a reference for the time-stamp counter.

use super::reference::Reference;
use crate::arch::port::Register;

/// A register of the timer or of what gates it.
const fn timer(port: u16) -> Register {
    // SAFETY: the timer does no DMA, and the system control port only gates its third channel.
    unsafe { Register::new(port) }
}

const CHANNEL_2: Register = timer(0x42);
const COMMAND: Register = timer(0x43);
const SYSTEM_CONTROL: Register = timer(0x61);

/// Ticks per second.
const FREQUENCY: u64 = 1_193_182;
/// Count down once, then raise the output; low byte first, then the high one.
const CHANNEL_2_ONCE: u8 = 0b1011_0000;
const LATCH_CHANNEL_2: u8 = 0b1000_0000;
const GATE_2: u8 = 1 << 0;
const SPEAKER: u8 = 1 << 1;

/// Starts the counter: it wraps around after 55 ms.
pub(super) fn start() -> Reference<fn() -> u64> {
    SYSTEM_CONTROL.write(SYSTEM_CONTROL.read() & !SPEAKER | GATE_2);
    COMMAND.write(CHANNEL_2_ONCE);
    // The count's low byte, then the high one: as much as there is.
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
