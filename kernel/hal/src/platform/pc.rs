//! The PC: 16550 serial ports, 8259A interrupt controllers and I/O APICs, 8254 timer, real-time clock.

mod calibration;
mod hpet;
mod io_apic;
mod pic;
mod pit;
mod power_button;
mod rtc;
mod serial;

use hermit_clock::HostTime;
use hermit_virtio::transport::pci::MsiMessage;

use super::native::{self, Native, apic, kvm_clock, smp};
use crate::arch::cpu;
use crate::arch::x86_64::port::Register;
use crate::interrupts;
use crate::ops::{HostClock, IrqChip, MemoryReturn, Platform, PlatformConsole, Power, Stream, TimeSource};

const SERIAL_LINE: u8 = 4;

/// ACPI's PM1a control register, where QEMU's machines have it.
const PM1A_CONTROL: Register<u16> = {
    // SAFETY: the register only changes the power state.
    unsafe { Register::new(0x604) }
};

/// Value of [`PM1A_CONTROL`] for soft off: `SLP_EN` with sleep type 0.
const SOFT_OFF: u16 = 0x2000;

/// Frequency in Hz of the time-stamp counter that the kernel assumes if it has no reference. Time then passes
/// at the wrong speed, but it passes.
const FALLBACK_FREQUENCY: u64 = 1_000_000_000;

/// A PC, or a virtual machine that looks like one.
#[derive(Debug)]
pub(super) struct Pc;

impl Platform for Pc {}

impl Native for Pc {
    /// The device is a virtio balloon.
    fn memory_return(&self) -> MemoryReturn {
        MemoryReturn::ByDevice
    }
}

impl PlatformConsole for Pc {
    fn init(&self) {
        serial::init();
    }

    fn write(&self, stream: Stream, bytes: &[u8]) {
        serial::write(stream, bytes);
    }

    fn try_write(&self, stream: Stream, bytes: &[u8]) -> usize {
        serial::try_write(stream, bytes)
    }

    fn read(&self) -> Option<u8> {
        serial::read()
    }

    fn has_input(&self) -> bool {
        serial::has_input()
    }

    fn enable_interrupt(&self) {
        serial::set_interrupt(true);
    }
}

impl IrqChip for Pc {
    fn init_irqs(&self) {
        if apic::find() {
            apic::init(true);
            smp::started(0);
        }
        pic::init();
        pic::enable(SERIAL_LINE);
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

    fn begin(&self, line: u8) {
        // Keeps the serial port from raising its line until a reader waits for input again. That reader takes
        // the input.
        if line == SERIAL_LINE {
            serial::set_interrupt(false);
        }
    }

    fn finish(&self, line: u8) {
        pic::enable(line);
    }

    fn connect(&self, interrupt: u32, line: u8) -> bool {
        io_apic::connect(interrupt, line)
    }

    fn msi_message(&self, cpu: u32, line: u8) -> Option<MsiMessage> {
        apic::msi_message([cpu, 0].map(smp::apic_id), line)
    }
}

impl TimeSource for Pc {
    fn host_clock(&self) -> Option<HostClock> {
        kvm_clock::host_clock()
    }

    fn measure_counter(&self) -> u64 {
        let by_pit = calibration::measure(&pit::start());
        let by_hpet = || hpet::find().and_then(|hpet| calibration::measure(&hpet));
        by_pit.or_else(by_hpet).unwrap_or(FALLBACK_FREQUENCY)
    }

    fn wall_clock(&self) -> Option<HostTime> {
        kvm_clock::wall_clock().or_else(|| rtc::read().map(HostTime::second))
    }
}

impl Power for Pc {
    fn exit(&self, status: u8) -> ! {
        serial::flush();
        native::exit(status);
        PM1A_CONTROL.write(SOFT_OFF);
        cpu::stop()
    }

    fn power_button_line(&self) -> Option<u8> {
        power_button::line()
    }

    fn enable_power_button(&self) {
        power_button::enable();
        native::announce_shutdown_handler();
    }

    fn take_power_button(&self) -> bool {
        power_button::take_press()
    }
}
