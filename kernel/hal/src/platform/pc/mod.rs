//! The PC: serial port, interrupt controller, interval timer, real-time clock.

mod hpet;
mod pic;
mod pit;
mod reference;
mod rtc;
mod serial;

use hermit_interface::exit::{QUIT_PORT, STATUS_PORT};
use x86_64::instructions::port::Port;

use crate::arch::cpu;
use crate::interrupts;

use super::{Platform, apic};

const SERIAL_LINE: u8 = 4;

/// Power-off of QEMU's machines: ACPI's PM1a control port and the value for "soft off".
const POWER_OFF: (u16, u16) = (0x604, 0x2000);

/// A PC, or a virtual machine that looks like one.
#[derive(Debug)]
pub(crate) struct Pc;

impl Platform for Pc {
    fn init(&self) {
        serial::init();
    }

    fn init_interrupts(&self) {
        if apic::find() {
            apic::init(true);
        }
        pic::init();
        pic::enable(SERIAL_LINE);
    }

    fn write(&self, bytes: &[u8]) {
        serial::write(bytes);
    }

    fn read(&self) -> Option<u8> {
        serial::read()
    }

    fn has_input(&self) -> bool {
        serial::has_input()
    }

    fn listen(&self) {
        serial::listen(true);
    }

    fn enable_line(&self, line: u8) {
        pic::enable(line);
    }

    fn acknowledge(&self, line: u8) -> bool {
        if line >= interrupts::TIMER {
            apic::end_of_interrupt();
            return true;
        }
        pic::acknowledge(line)
    }

    fn interrupt(&self, line: u8) {
        // The line stays quiet until somebody waits for input again; the input itself is read by them.
        if line == SERIAL_LINE {
            serial::listen(false);
        }
    }

    fn finish(&self, line: u8) {
        pic::enable(line);
    }

    fn measure_tsc(&self) -> u64 {
        reference::measure_tsc()
    }

    fn wall_clock(&self) -> u64 {
        rtc::read()
    }

    fn exit(&self, status: u8) -> ! {
        // SAFETY: the port ends up in a file of the monitor, or nothing listens.
        unsafe { Port::new(STATUS_PORT).write(status) };
        // SAFETY: ends the machine, or nothing listens.
        unsafe { Port::new(QUIT_PORT).write(0_u8) };
        // SAFETY: as above.
        unsafe { Port::new(POWER_OFF.0).write(POWER_OFF.1) };
        cpu::stop()
    }
}
