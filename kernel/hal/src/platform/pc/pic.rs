//! The pair of interrupt controllers of the PC (Intel 8259A data sheet).

use core::sync::atomic::AtomicU16;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch::port::Register;
use crate::arch::trap::FIRST_LINE;

/// A register of the controllers.
const fn register(port: u16) -> Register {
    // SAFETY: the controllers do no DMA.
    unsafe { Register::new(port) }
}

const MAIN_COMMAND: Register = register(0x20);
const MAIN_DATA: Register = register(0x21);
const SECOND_COMMAND: Register = register(0xa0);
const SECOND_DATA: Register = register(0xa1);

/// Initialisation in four words follows.
const INITIALISE: u8 = 0x11;
/// Plain 8086 mode: interrupts are ended by command.
const MODE: u8 = 0x01;
/// The second controller hangs on line 2 of the main one.
const SECOND_LINE: u8 = 2;
const READ_IN_SERVICE: u8 = 0x0b;
const END_OF_INTERRUPT: u8 = 0x20;
/// A line that goes away before it is served shows up as the last one of its controller.
const SPURIOUS: u8 = 7;

/// The lines that are let through.
static ENABLED: AtomicU16 = AtomicU16::new(1 << SECOND_LINE);

/// Gives the lines their vectors and lets none through.
pub(super) fn init() {
    MAIN_COMMAND.write(INITIALISE);
    SECOND_COMMAND.write(INITIALISE);
    MAIN_DATA.write(FIRST_LINE);
    SECOND_DATA.write(FIRST_LINE + 8);
    MAIN_DATA.write(1 << SECOND_LINE);
    SECOND_DATA.write(SECOND_LINE);
    MAIN_DATA.write(MODE);
    SECOND_DATA.write(MODE);
    write_mask();
}

/// Lets a line through. What it was raised for meanwhile comes now.
pub(super) fn enable(line: u8) {
    ENABLED.fetch_or(bit(line), Relaxed);
    write_mask();
}

/// Ends an interrupt, and does not let its line through until it is enabled again: a device may keep it raised until its
/// driver has run, which may be late. `false` if it was spurious.
pub(super) fn acknowledge(line: u8) -> bool {
    let is_second = line >= 8;
    if line & 7 == SPURIOUS && !is_in_service(is_second) {
        if is_second {
            // The main controller does not know.
            MAIN_COMMAND.write(END_OF_INTERRUPT);
        }
        return false;
    }
    ENABLED.fetch_and(!bit(line), Relaxed);
    write_mask();
    if is_second {
        SECOND_COMMAND.write(END_OF_INTERRUPT);
    }
    MAIN_COMMAND.write(END_OF_INTERRUPT);
    true
}

fn bit(line: u8) -> u16 {
    1_u16.checked_shl(line.into()).unwrap_or_default()
}

/// Whether a controller's last line is being served.
fn is_in_service(is_second: bool) -> bool {
    let command = if is_second { &SECOND_COMMAND } else { &MAIN_COMMAND };
    command.write(READ_IN_SERVICE);
    command.read() & 1 << SPURIOUS != 0
}

/// Tells the controllers which lines are let through. An interrupt in between changes that and does the same.
fn write_mask() {
    loop {
        let enabled = ENABLED.load(Relaxed);
        let [main, second] = (!enabled).to_le_bytes();
        MAIN_DATA.write(main);
        SECOND_DATA.write(second);
        if enabled == ENABLED.load(Relaxed) {
            return;
        }
    }
}
