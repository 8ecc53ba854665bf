//! The pair of interrupt controllers of the PC (Intel 8259A data sheet).

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
/// A line that goes away before it is served shows up as the last one.
const SPURIOUS: u8 = 7;

/// Gives the lines their vectors and lets only `lines` through, all of the main controller.
pub(super) fn init(lines: &[u8]) {
    MAIN_COMMAND.write(INITIALISE);
    SECOND_COMMAND.write(INITIALISE);
    MAIN_DATA.write(FIRST_LINE);
    SECOND_DATA.write(FIRST_LINE + 8);
    MAIN_DATA.write(1 << SECOND_LINE);
    SECOND_DATA.write(SECOND_LINE);
    MAIN_DATA.write(MODE);
    SECOND_DATA.write(MODE);
    MAIN_DATA.write(!lines.iter().fold(0, |mask, line| mask | 1 << line));
    SECOND_DATA.write(0xff);
}

/// Ends an interrupt; `false` if it was spurious.
pub(super) fn acknowledge(line: u8) -> bool {
    if line == SPURIOUS {
        MAIN_COMMAND.write(READ_IN_SERVICE);
        if MAIN_COMMAND.read() & 1 << SPURIOUS == 0 {
            return false;
        }
    }
    MAIN_COMMAND.write(END_OF_INTERRUPT);
    line < 8
}
