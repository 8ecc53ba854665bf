//! The first serial port, a 16550 (National Semiconductor PC16550D data sheet).

use crate::arch::x86_64::port::Register;

/// A register of the serial port.
const fn register(port: u16) -> Register {
    // SAFETY: the serial port does no DMA, so no access affects memory.
    unsafe { Register::new(port) }
}

/// Data; low byte of the divisor while the divisor latch is selected.
const DATA: Register = register(0x3f8);
/// Interrupt enable; high byte of the divisor while the divisor latch is selected.
const INTERRUPT_ENABLE: Register = register(0x3f9);
const LINE_CONTROL: Register = register(0x3fb);
const MODEM_CONTROL: Register = register(0x3fc);
const LINE_STATUS: Register = register(0x3fd);

const DATA_AVAILABLE_INTERRUPT: u8 = 1 << 0;
const EIGHT_BITS: u8 = 0b11;
const SELECT_DIVISOR: u8 = 1 << 7;
/// Data terminal ready, request to send, and OUT2, which gates the interrupt line.
const READY_WITH_INTERRUPTS: u8 = 0b1011;
const DATA_READY: u8 = 1 << 0;
const TRANSMITTER_EMPTY: u8 = 1 << 5;

/// Sets 115,200 bits per second, 8 bits, no parity. The FIFO stays off, as it is after a reset: switching it on would
/// discard input that has arrived already.
pub(super) fn init() {
    INTERRUPT_ENABLE.write(0);
    LINE_CONTROL.write(SELECT_DIVISOR | EIGHT_BITS);
    DATA.write(1);
    INTERRUPT_ENABLE.write(0);
    LINE_CONTROL.write(EIGHT_BITS);
    MODEM_CONTROL.write(READY_WITH_INTERRUPTS);
}

/// Sends bytes.
pub(super) fn write(bytes: &[u8]) {
    for &byte in bytes {
        while LINE_STATUS.read() & TRANSMITTER_EMPTY == 0 {
            core::hint::spin_loop();
        }
        DATA.write(byte);
    }
}

/// Takes the byte that has arrived, if there is one.
pub(super) fn read() -> Option<u8> {
    has_input().then(|| DATA.read())
}

/// Whether a byte has arrived.
pub(super) fn has_input() -> bool {
    LINE_STATUS.read() & DATA_READY != 0
}

/// Enables or disables the interrupt on input, which is raised at once if a byte has arrived already.
pub(super) fn set_interrupt(is_enabled: bool) {
    INTERRUPT_ENABLE.write(if is_enabled { DATA_AVAILABLE_INTERRUPT } else { 0 });
}
