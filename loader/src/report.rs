//! Errors: the loader prints one line to the serial port of standard error, and ends the machine.

use core::fmt::{self, Write};

use hermit_interface::console::{ERROR_SERIAL_PORT, LINE_STATUS, NO_SERIAL_PORT, SERIAL_PORT};
use hermit_interface::exit::{NOT_STARTED, QUIT_PORT, STATUS_PORT};
use x86_64::instructions::hlt;
use x86_64::instructions::port::Port;

const TRANSMITTER_EMPTY: u8 = 1 << 5;
/// Maximum number of polls for room in the transmitter, per byte.
const MAX_POLLS: usize = 100_000;

/// QEMU's ACPI power-off: port and value.
const POWER_OFF: (u16, u16) = (0x604, 0x2000);

/// The serial port at these I/O ports.
struct Serial(u16);

impl Serial {
    /// The port of standard error.
    fn error() -> Self {
        // SAFETY: reading the line status register of a UART, or a port without a device, has no effect on
        // memory.
        let status = unsafe { Port::<u8>::new(ERROR_SERIAL_PORT + LINE_STATUS).read() };
        Self(if status == NO_SERIAL_PORT { SERIAL_PORT } else { ERROR_SERIAL_PORT })
    }
}

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let (mut data, mut status) = (Port::<u8>::new(self.0), Port::<u8>::new(self.0 + LINE_STATUS));
        for &byte in text.as_bytes() {
            // SAFETY: reading the line status register of a UART, or a port without a device, has no effect
            // on memory.
            let ready = || unsafe { status.read() } & TRANSMITTER_EMPTY != 0;
            // A port that never becomes ready must not keep the machine from ending.
            let _: Option<()> = core::iter::repeat_with(ready).take(MAX_POLLS).find(|&ready| ready).map(drop);
            // SAFETY: writing the data register of a UART, or a port without a device, has no effect on
            // memory.
            unsafe { data.write(byte) };
        }
        Ok(())
    }
}

/// Prints why the image cannot be started, and ends the machine.
pub(crate) fn fail(reason: fmt::Arguments<'_>) -> ! {
    // `write_str` cannot fail.
    let _: fmt::Result = writeln!(Serial::error(), "hermit-loader: error: {reason}");
    // SAFETY: the VMM stores the status, or no device has the port: neither affects memory.
    unsafe { Port::new(STATUS_PORT).write(NOT_STARTED) };
    // SAFETY: the write ends the machine, or no device has the port: neither affects memory that is still
    // used.
    unsafe { Port::new(QUIT_PORT).write(0_u8) };
    // SAFETY: the write ends the machine, or no device has the port: neither affects memory that is still
    // used.
    unsafe { Port::new(POWER_OFF.0).write(POWER_OFF.1) };
    loop {
        hlt();
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    fail(format_args!("{info}"))
}
