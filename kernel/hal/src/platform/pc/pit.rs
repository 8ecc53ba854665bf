//! The interval timer (Intel 8254 data sheet), of which channel 2 measures the time-stamp counter.

use hermit_clock::Span;

use crate::arch::port::Register;
use crate::arch::tsc;

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

/// How long the time-stamp counter is measured: 5 ms.
const MEASURE_TICKS: u64 = FREQUENCY / 200;

/// Ticks of the time-stamp counter per second.
pub(super) fn measure_tsc() -> u64 {
    SYSTEM_CONTROL.write(SYSTEM_CONTROL.read() & !SPEAKER | GATE_2);
    COMMAND.write(CHANNEL_2_ONCE);
    // The count's low byte, then the high one: as much as there is.
    CHANNEL_2.write(u8::MAX);
    CHANNEL_2.write(u8::MAX);
    let first = next_tick();
    let last = loop {
        let tick = next_tick();
        if tick.reference.wrapping_sub(first.reference) >= MEASURE_TICKS {
            break tick;
        }
    };
    first.frequency(&last, FREQUENCY)
}

/// Waits for the timer's next tick and reads both counters there. Of the two reads between which it happened,
/// the time-stamp counter's mean is taken.
fn next_tick() -> Span {
    let (mut before, old) = (tsc::now(), count());
    loop {
        let now = count();
        let after = tsc::now();
        if now != old {
            return Span { tsc: before + (after - before) / 2, reference: u64::from(u16::MAX - now) };
        }
        before = after;
    }
}

fn count() -> u16 {
    COMMAND.write(LATCH_CHANNEL_2);
    let low = CHANNEL_2.read();
    u16::from_le_bytes([low, CHANNEL_2.read()])
}
