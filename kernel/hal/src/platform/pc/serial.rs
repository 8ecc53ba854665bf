//! The serial ports, 16550s (National Semiconductor PC16550D data sheet).

use core::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};

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
    /// FIFO control when written, interrupt identification when read.
    fifo_control: Register,
    line_control: Register,
    modem_control: Register,
    line_status: Register,
    /// Number of bytes that a ready port accepts at once. Set before other CPUs start.
    depth: AtomicUsize,
}

static CONSOLE: SerialPort = SerialPort::new(SERIAL_PORT);

static ERROR: SerialPort = SerialPort::new(ERROR_SERIAL_PORT);

/// True if [`ERROR`] exists. Set before other CPUs start.
static HAS_ERROR: AtomicBool = AtomicBool::new(false);

/// Byte that arrived before the FIFO was enabled, plus [`IS_EARLY`]. 0 if no byte arrived, or if it has been
/// read.
static EARLY_INPUT: AtomicU16 = AtomicU16::new(0);

/// Marks a byte in [`EARLY_INPUT`].
const IS_EARLY: u16 = 1 << 8;

const DATA_AVAILABLE_INTERRUPT: u8 = 1 << 0;
/// Enables the FIFOs of [`FIFO_SIZE`] bytes. The interrupt is raised when 14 bytes have been received (bits 6
/// and 7), or 4 character times after the last received byte.
const ENABLE_FIFOS: u8 = 0b1100_0001;
/// The FIFOs are enabled; never set by an 8250 or 16450, which have none.
const HAS_FIFOS: u8 = 0b1100_0000;
const FIFO_SIZE: usize = 16;
const EIGHT_BITS: u8 = 0b11;
const SELECT_DIVISOR: u8 = 1 << 7;
/// Data terminal ready, request to send, and OUT2, which gates the interrupt line.
const READY_WITH_INTERRUPTS: u8 = 0b1011;
/// Loopback: the receiver is disconnected from the line.
const LOOPBACK: u8 = 1 << 4;
const DATA_READY: u8 = 1 << 0;
/// The holding register is empty: it accepts the next byte.
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
            fifo_control: register(base + 2),
            line_control: register(base + 3),
            modem_control: register(base + 4),
            line_status: register(base + LINE_STATUS),
            depth: AtomicUsize::new(1),
        }
    }

    /// Sets 115,200 bits per second, 8 bits, no parity, and enables the FIFOs. Returns the byte that arrived
    /// before, if any.
    fn init(&self) -> Option<u8> {
        self.interrupt_enable.write(0);
        self.line_control.write(SELECT_DIVISOR | EIGHT_BITS);
        self.data.write(1);
        self.interrupt_enable.write(0);
        self.line_control.write(EIGHT_BITS);
        self.enable_fifos()
    }

    /// Enables the FIFOs. Returns the byte that arrived before, if any. Enabling the FIFOs clears all buffers
    /// of the port (data sheet, section 8.4). So this first waits until the transmitter has sent all bytes,
    /// and puts the port into loopback, so that no input arrives meanwhile. (QEMU passes on the next byte
    /// when its main loop runs after the read; loopback does not wake the main loop.)
    fn enable_fifos(&self) -> Option<u8> {
        self.flush();
        self.modem_control.write(READY_WITH_INTERRUPTS | LOOPBACK);
        let early = (self.line_status.read() & DATA_READY != 0).then(|| self.data.read());
        self.fifo_control.write(ENABLE_FIFOS);
        self.modem_control.write(READY_WITH_INTERRUPTS);
        let has_fifos = self.fifo_control.read() & HAS_FIFOS == HAS_FIFOS;
        self.depth.store(if has_fifos { FIFO_SIZE } else { 1 }, Ordering::Relaxed);
        early
    }

    /// Waits until all bytes are sent.
    fn flush(&self) {
        while self.line_status.read() & TRANSMITTER_EMPTY == 0 {
            core::hint::spin_loop();
        }
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
    if let Some(byte) = CONSOLE.init() {
        EARLY_INPUT.store(IS_EARLY | u16::from(byte), Ordering::Relaxed);
    }
    if ERROR.exists() {
        let _: Option<u8> = ERROR.init();
        HAS_ERROR.store(true, Ordering::Relaxed);
    }
}

/// The port of a stream. Without a second port, standard error is the console's port.
fn port(stream: Stream) -> &'static SerialPort {
    match stream {
        Stream::Error if HAS_ERROR.load(Ordering::Relaxed) => &ERROR,
        Stream::Output | Stream::Error => &CONSOLE,
    }
}

/// Sends bytes.
pub(super) fn write(stream: Stream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let sent = try_write(stream, bytes);
        bytes = bytes.get(sent..).unwrap_or_default();
        core::hint::spin_loop();
    }
}

/// Sends bytes as long as the port accepts them at once. Returns the number of bytes sent.
pub(super) fn try_write(stream: Stream, bytes: &[u8]) -> usize {
    let port = port(stream);
    // A ready port has an empty FIFO, which accepts as many bytes as it can hold.
    let chunks = bytes.chunks(port.depth.load(Ordering::Relaxed));
    let sent = chunks.take_while(|_| port.is_ready()).map(|chunk| {
        chunk.iter().for_each(|&byte| port.data.write(byte));
        chunk.len()
    });
    sent.sum()
}

/// Waits until all bytes are sent. Otherwise the end of the machine would discard bytes that are still in the
/// ports.
pub(super) fn flush() {
    [&CONSOLE, port(Stream::Error)].into_iter().for_each(SerialPort::flush);
}

/// Takes the next byte that has arrived, if there is one. Calls must not overlap.
pub(super) fn read() -> Option<u8> {
    if has_early_input() {
        let [byte, _] = EARLY_INPUT.swap(0, Ordering::Relaxed).to_le_bytes();
        return Some(byte);
    }
    has_input().then(|| CONSOLE.data.read())
}

fn has_early_input() -> bool {
    EARLY_INPUT.load(Ordering::Relaxed) != 0
}

/// Returns true if a byte has arrived.
pub(super) fn has_input() -> bool {
    has_early_input() || CONSOLE.line_status.read() & DATA_READY != 0
}

/// Enables or disables the interrupt on input. If bytes have already arrived, the interrupt is raised at
/// once, or, if there are fewer than 14, 4 character times after the last byte.
pub(super) fn set_interrupt(is_enabled: bool) {
    CONSOLE.interrupt_enable.write(if is_enabled { DATA_AVAILABLE_INTERRUPT } else { 0 });
}
