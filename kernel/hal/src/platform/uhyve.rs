//! The machine that uhyve makes on KVM ([`hermit_interface::machine`]): local APICs, and ports for text and
//! for the shutdown.

use core::arch::asm;

use hermit_clock::HostTime;
use hermit_interface::exit::NOT_STARTED;
use hermit_interface::machine::{ERROR_TEXT_PORT, POWER_BUTTON_LINE, RETURN_PORT, TEXT_PORT};
use hermit_virtio::transport::pci::MsiMessage;

use super::native::apic;
use super::native::{self, Native, kvm_clock, smp};
use super::{uhyve_clock, uhyve_return};
use crate::arch::cpu;
use crate::arch::x86_64::port;
use crate::ops::{HostClock, IrqChip, MemoryReturn, Platform, PlatformConsole, Power, Stream, TimeSource};

/// The machine that uhyve makes on KVM.
#[derive(Debug)]
pub(super) struct UhyveKvm;

impl Platform for UhyveKvm {}

impl Native for UhyveKvm {
    fn memory_return(&self) -> MemoryReturn {
        uhyve_return::kind()
    }

    unsafe fn return_memory(&self, physical: u64, size: u64) {
        if let Some(word) = uhyve_return::encode_returned(physical, size) {
            // SAFETY: the hypervisor discards the contents of the memory that the word names, and of no
            // other. Nothing uses that memory (contract of `Mmu::return_memory`).
            unsafe { port::write_memory_command(RETURN_PORT, word) };
        }
    }
}

impl PlatformConsole for UhyveKvm {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        let port = match stream {
            Stream::Output => TEXT_PORT,
            Stream::Error => ERROR_TEXT_PORT,
        };
        // SAFETY: OUTS reads exactly the bytes of the slice, upwards, as the System V ABI keeps the direction
        // flag clear. The hypervisor only prints the bytes that are written to the port.
        unsafe {
            asm!(
                "rep outsb",
                in("dx") port,
                inout("rsi") bytes.as_ptr() => _,
                inout("rcx") bytes.len() => _,
                options(readonly, nostack, preserves_flags),
            );
        }
    }
}

impl IrqChip for UhyveKvm {
    fn init_irqs(&self) {
        if apic::find() {
            apic::init(false);
            smp::started(0);
        }
    }

    fn acknowledge(&self, _line: u8) -> bool {
        apic::end_of_interrupt();
        true
    }

    fn msi_message(&self, cpu: u32, line: u8) -> Option<MsiMessage> {
        apic::msi_message([cpu, 0].map(smp::apic_id), line)
    }
}

impl TimeSource for UhyveKvm {
    fn host_clock(&self) -> Option<HostClock> {
        kvm_clock::host_clock()
    }

    fn measure_counter(&self) -> u64 {
        let reason = b"hermit: fatal error: the hypervisor does not say how fast the time-stamp counter is\n";
        self.write(Stream::Error, reason);
        self.exit(NOT_STARTED)
    }

    fn wall_clock(&self) -> Option<HostTime> {
        uhyve_clock::wall_clock()
    }

    fn measured_frequency(&self) -> Option<u64> {
        uhyve_clock::frequency()
    }
}

impl Power for UhyveKvm {
    fn exit(&self, status: u8) -> ! {
        native::exit(status);
        cpu::stop()
    }

    /// uhyve's output threads process their queues before they exit.
    fn drains_consoles(&self) -> bool {
        true
    }

    fn power_button_line(&self) -> Option<u8> {
        u8::try_from(POWER_BUTTON_LINE).ok()
    }

    fn enable_power_button(&self) {
        native::announce_shutdown_handler();
    }

    /// Always true: no other device raises the line.
    fn take_power_button(&self) -> bool {
        true
    }
}
