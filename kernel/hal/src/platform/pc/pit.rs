//! The interval timer (Intel 8254 data sheet), of which channel 2 measures the time-stamp counter.

use hermit_clock::Fit;

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

/// A counter that does not say is as good as one of 1 GHz.
const UNKNOWN: u64 = 1_000_000_000;

/// Ticks of the time-stamp counter per second.
pub(super) fn measure_tsc() -> u64 {
    SYSTEM_CONTROL.write(SYSTEM_CONTROL.read() & !SPEAKER | GATE_2);
    COMMAND.write(CHANNEL_2_ONCE);
    // The count's low byte, then the high one: as much as there is.
    CHANNEL_2.write(u8::MAX);
    CHANNEL_2.write(u8::MAX);
    let mut fit = Fit::default();
    let mut fastest = u64::MAX;
    // The count is loaded at the timer's next tick.
    let mut first = reference();
    while reference() == first {
        core::hint::spin_loop();
    }
    first = reference();
    loop {
        let before = tsc::now();
        let reference = reference();
        let took = tsc::now() - before;
        fastest = fastest.min(took);
        // One that took long was interrupted, who knows when.
        if took < 2 * fastest {
            fit.add(before + took / 2, reference);
        }
        if reference.wrapping_sub(first) >= MEASURE_TICKS {
            return fit.frequency(FREQUENCY).unwrap_or(UNKNOWN);
        }
    }
}

/// Ticks since the timer was started.
fn reference() -> u64 {
    COMMAND.write(LATCH_CHANNEL_2);
    let low = CHANNEL_2.read();
    u64::from(u16::MAX - u16::from_le_bytes([low, CHANNEL_2.read()]))
}
