//! Our hypervisor's machine ([`hermit_interface::machine`]): local APICs, and two ports for text and for the end.

use core::arch::asm;

use hermit_interface::exit::{QUIT_PORT, STATUS_PORT};
use hermit_interface::machine::TEXT_PORT;
use x86_64::instructions::port::Port;

use super::{Platform, apic};
use crate::arch::cpu;

/// The machine that `uhyve` makes.
#[derive(Debug)]
pub(super) struct Uhyve;

impl Platform for Uhyve {
    fn init_interrupts(&self) {
        if apic::find() {
            apic::init(false);
        }
    }

    fn write(&self, bytes: &[u8]) {
        // SAFETY: the port takes a string of bytes, which are only read.
        unsafe {
            asm!(
                "rep outsb",
                in("dx") TEXT_PORT,
                inout("rsi") bytes.as_ptr() => _,
                inout("rcx") bytes.len() => _,
                options(readonly, nostack, preserves_flags),
            );
        }
    }

    fn acknowledge(&self, _line: u8) -> bool {
        apic::end_of_interrupt();
        true
    }

    fn exit(&self, status: u8) -> ! {
        // SAFETY: the port takes the status and affects nothing else.
        unsafe { Port::new(STATUS_PORT).write(status) };
        // SAFETY: ends the machine.
        unsafe { Port::new(QUIT_PORT).write(0_u8) };
        cpu::stop()
    }
}
