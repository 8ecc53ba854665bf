//! The serial ports, 16550s (National Semiconductor PC16550D data sheet).

use core::sync::atomic::{AtomicBool, Ordering};

use hermit_interface::console::{ERROR_SERIAL_PORT, LINE_STATUS, NO_SERIAL_PORT, SERIAL_PORT};

use crate::arch::x86_64::port::Register;
use crate::console::Stream;

/// A serial port.
#[derive(Debug)]
struct SerialPort {
    /// Data; low byte of the divisor while the divisor latch is selected.
    data: Register,
    /// Interrupt enable; high byte of the divisor while the divisor latch is selected.
    interrupt_enable: Register,
    line_control: Register,
    modem_control: Register,
    line_status: Register,
}

static CONSOLE: SerialPort = SerialPort::new(SERIAL_PORT);

static ERROR: SerialPort = SerialPort::new(ERROR_SERIAL_PORT);

/// Whether [`ERROR`] exists. Set before other CPUs start.
static HAS_ERROR: AtomicBool = AtomicBool::new(false);

const DATA_AVAILABLE_INTERRUPT: u8 = 1 << 0;
const EIGHT_BITS: u8 = 0b11;
const SELECT_DIVISOR: u8 = 1 << 7;
/// Data terminal ready, request to send, and OUT2, which gates the interrupt line.
const READY_WITH_INTERRUPTS: u8 = 0b1011;
const DATA_READY: u8 = 1 << 0;
/// The holding register is empty: it takes the next byte.
const HOLDING_REGISTER_EMPTY: u8 = 1 << 5;
/// The shift register is empty, too: all bytes are sent.
const TRANSMITTER_EMPTY: u8 = 1 << 6;

impl SerialPort {
    const fn new(base: u16) -> Self {
        /// A register of a serial port.
        const fn register(port: u16) -> Register {
            // SAFETY: a serial port does no DMA, so no access affects memory.
            unsafe { Register::new(port) }
        }
        Self {
            data: register(base),
            interrupt_enable: register(base + 1),
            line_control: register(base + 3),
            modem_control: register(base + 4),
            line_status: register(base + LINE_STATUS),
        }
    }

    /// Sets 115,200 bits per second, 8 bits, no parity. The FIFO stays off, as it is after a reset: switching it on
    /// would discard input that has arrived already.
    fn init(&self) {
        self.interrupt_enable.write(0);
        self.line_control.write(SELECT_DIVISOR | EIGHT_BITS);
        self.data.write(1);
        self.interrupt_enable.write(0);
        self.line_control.write(EIGHT_BITS);
        self.modem_control.write(READY_WITH_INTERRUPTS);
    }

    fn exists(&self) -> bool {
        self.line_status.read() != NO_SERIAL_PORT
    }

    fn is_ready(&self) -> bool {
        self.line_status.read() & HOLDING_REGISTER_EMPTY != 0
    }
}

/// Initialises the ports.
pub(super) fn init() {
    CONSOLE.init();
    if ERROR.exists() {
        ERROR.init();
        HAS_ERROR.store(true, Ordering::Relaxed);
    }
}

/// The port of a stream: standard error is that of the console if there is no second port.
fn port(stream: Stream) -> &'static SerialPort {
    match stream {
        Stream::Error if HAS_ERROR.load(Ordering::Relaxed) => &ERROR,
        Stream::Output | Stream::Error => &CONSOLE,
    }
}

/// Sends bytes.
pub(super) fn write(stream: Stream, bytes: &[u8]) {
    let port = port(stream);
    for &byte in bytes {
        while !port.is_ready() {
            core::hint::spin_loop();
        }
        port.data.write(byte);
    }
}

/// Sends bytes while the port takes them at once; returns their number.
pub(super) fn try_write(stream: Stream, bytes: &[u8]) -> usize {
    let port = port(stream);
    let sent = bytes.iter().take_while(|&&byte| {
        let is_ready = port.is_ready();
        if is_ready {
            port.data.write(byte);
        }
        is_ready
    });
    sent.count()
}

/// Waits until all bytes are sent, since those in the ports are lost when the machine ends.
pub(super) fn flush() {
    for port in [&CONSOLE, port(Stream::Error)] {
        while port.line_status.read() & TRANSMITTER_EMPTY == 0 {
            core::hint::spin_loop();
        }
    }
}

/// Takes the byte that has arrived, if there is one.
pub(super) fn read() -> Option<u8> {
    has_input().then(|| CONSOLE.data.read())
}

/// Whether a byte has arrived.
pub(super) fn has_input() -> bool {
    CONSOLE.line_status.read() & DATA_READY != 0
}

/// Enables or disables the interrupt on input, which is raised at once if a byte has arrived already.
pub(super) fn set_interrupt(is_enabled: bool) {
    CONSOLE.interrupt_enable.write(if is_enabled { DATA_AVAILABLE_INTERRUPT } else { 0 });
}
