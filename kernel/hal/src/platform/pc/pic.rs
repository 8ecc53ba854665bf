//! The pair of interrupt controllers of the PC, master and slave (Intel 8259A data sheet).

use core::sync::atomic::AtomicU16;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch::x86_64::port::Register;
use crate::arch::x86_64::trap::FIRST_LINE;

/// A register of the controllers.
const fn register(port: u16) -> Register {
    // SAFETY: the controllers do no DMA, so no access affects memory.
    unsafe { Register::new(port) }
}

const MASTER_COMMAND: Register = register(0x20);
const MASTER_DATA: Register = register(0x21);
const SLAVE_COMMAND: Register = register(0xa0);
const SLAVE_DATA: Register = register(0xa1);

/// ICW1: initialisation, with four words.
const INITIALISE: u8 = 0x11;
/// ICW4: 8086 mode, interrupts are ended by command (no automatic EOI).
const MODE: u8 = 0x01;
/// Line of the master to which the slave is connected.
const SLAVE_LINE: u8 = 2;
/// OCW3: the next read returns the in-service register.
const READ_IN_SERVICE: u8 = 0x0b;
/// OCW2: non-specific end of interrupt.
const END_OF_INTERRUPT: u8 = 0x20;
/// The line on which a controller reports spurious interrupts: interrupts that went away before they were
/// acknowledged.
const SPURIOUS: u8 = 7;

/// The unmasked lines, one bit each.
static ENABLED: AtomicU16 = AtomicU16::new(1 << SLAVE_LINE);

/// Assigns vectors to the lines, and masks all lines.
pub(super) fn init() {
    MASTER_COMMAND.write(INITIALISE);
    SLAVE_COMMAND.write(INITIALISE);
    MASTER_DATA.write(FIRST_LINE);
    SLAVE_DATA.write(FIRST_LINE + 8);
    MASTER_DATA.write(1 << SLAVE_LINE);
    SLAVE_DATA.write(SLAVE_LINE);
    MASTER_DATA.write(MODE);
    SLAVE_DATA.write(MODE);
    write_mask();
}

/// Unmasks a line. If it was raised meanwhile, the interrupt is delivered now.
pub(super) fn enable(line: u8) {
    ENABLED.fetch_or(bit(line), Relaxed);
    write_mask();
}

/// Acknowledges an interrupt and masks its line until [`enable`]: a device may keep the line raised until its
/// driver has run, which may be late. Returns false if the interrupt was spurious.
pub(super) fn acknowledge(line: u8) -> bool {
    let is_slave = line >= 8;
    if line & 7 == SPURIOUS && !is_in_service(is_slave) {
        if is_slave {
            // For the master this was a real interrupt, on the slave's line. It must be ended.
            MASTER_COMMAND.write(END_OF_INTERRUPT);
        }
        return false;
    }
    ENABLED.fetch_and(!bit(line), Relaxed);
    write_mask();
    if is_slave {
        SLAVE_COMMAND.write(END_OF_INTERRUPT);
    }
    MASTER_COMMAND.write(END_OF_INTERRUPT);
    true
}

fn bit(line: u8) -> u16 {
    1_u16.checked_shl(line.into()).unwrap_or_default()
}

/// Returns true if the last line of a controller is in service.
fn is_in_service(is_slave: bool) -> bool {
    let command = if is_slave { &SLAVE_COMMAND } else { &MASTER_COMMAND };
    command.write(READ_IN_SERVICE);
    command.read() & 1 << SPURIOUS != 0
}

/// Writes the controllers' masks. An interrupt may change [`ENABLED`] and write the masks in between, so this
/// compares the value afterwards, and repeats if it has changed.
fn write_mask() {
    loop {
        let enabled = ENABLED.load(Relaxed);
        let [master, slave] = (!enabled).to_le_bytes();
        MASTER_DATA.write(master);
        SLAVE_DATA.write(slave);
        if enabled == ENABLED.load(Relaxed) {
            return;
        }
    }
}
