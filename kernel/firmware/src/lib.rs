//! Firmware tables: processors, interrupt controllers, timers and power registers, as ACPI or MultiProcessor
//! tables describe them.
//!
//! [`platform_info`] reads the ACPI tables. If there are none, it reads the tables of Intel's older
//! MultiProcessor Specification.
//!
//! The tables are untrusted: lengths may be wrong, and tables may overlap, be truncated or contain
//! themselves. So memory is read only by copy, through [`PhysicalMemory`]; a table is used only if its
//! checksum is valid; and every loop is bounded, so that reading copies about ten megabytes at most. The
//! caller still has to validate the result, above all addresses.
//!
//! ```
//! use hermit_firmware::{PhysicalMemory, platform_info};
//!
//! /// A megabyte of memory without firmware tables.
//! struct NoTables;
//!
//! impl PhysicalMemory for NoTables {
//!     fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
//!         bytes.fill(0);
//!         address + bytes.len() as u64 <= 1 << 20
//!     }
//! }
//!
//! assert_eq!(platform_info(&NoTables, None), None);
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod acpi;
mod multiprocessor;
mod reader;
#[cfg(test)]
mod tests;

use heapless::Vec;
use hermit_interface::MAX_CPUS;

/// Maximum number of I/O APICs; further ones are ignored.
pub const MAX_IO_APICS: usize = 8;

/// Number of interrupt lines of the ISA bus.
pub const ISA_INTERRUPTS: usize = 16;

/// Access to physical memory.
pub trait PhysicalMemory {
    /// Copies physical memory to `bytes`. Returns false if a part is not readable.
    ///
    /// The address is arbitrary, but the range does not exceed the 64-bit address space.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;
}

/// Description of the platform by the firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformInfo {
    /// Local APIC IDs of the enabled processors, without duplicates, in the order of the tables. At least
    /// one.
    pub cpus: Vec<u32, MAX_CPUS>,
    /// Physical address of the local APIC registers.
    pub local_apic_address: u64,
    /// I/O APICs, without duplicates.
    pub io_apics: Vec<IoApic, MAX_IO_APICS>,
    /// Interrupts of the ISA bus that the tables describe, without duplicates; see
    /// [`PlatformInfo::isa_interrupt`].
    pub isa_interrupts: Vec<IsaInterrupt, ISA_INTERRUPTS>,
    /// Physical address of the first HPET's registers.
    pub hpet: Option<u64>,
    /// I/O port of the PM1a control register (`PM1a_CNT_BLK`), for sleep states and power-off.
    pub pm1a_control: Option<u16>,
    /// Method to reset the machine; `None` without a reset register in I/O space.
    pub reset: Option<Reset>,
    /// The power button.
    pub power_button: Option<PowerButton>,
}

impl PlatformInfo {
    /// A description with nothing but the address of the local APICs.
    fn new(local_apic_address: u64) -> Self {
        Self {
            cpus: Vec::new(),
            local_apic_address,
            io_apics: Vec::new(),
            isa_interrupts: Vec::new(),
            hpet: None,
            pm1a_control: None,
            reset: None,
            power_button: None,
        }
    }

    /// The global system interrupt of an ISA interrupt.
    ///
    /// An interrupt that the tables do not describe is identity-mapped, active high and edge-triggered.
    #[must_use]
    pub fn isa_interrupt(&self, isa: u8) -> InterruptLine {
        let described = self.isa_interrupts.iter().find(|line| line.source == isa);
        described.map_or(InterruptLine::isa(u32::from(isa)), |line| line.line)
    }

    /// Adds an enabled processor, unless it is known.
    fn add_cpu(&mut self, apic: u32) {
        if !self.cpus.contains(&apic) {
            // Processors beyond `MAX_CPUS` are ignored.
            let _full = self.cpus.push(apic);
        }
    }

    /// Adds an I/O APIC, unless it is known.
    fn add_io_apic(&mut self, io_apic: IoApic) {
        let known = self.io_apics.iter().any(|other| other.address == io_apic.address);
        if !known && io_apic.address != 0 {
            let _full = self.io_apics.push(io_apic);
        }
    }

    /// Adds an ISA interrupt, unless it is known. If there are several descriptions, the first one counts.
    fn add_isa_interrupt(&mut self, isa: u8, line: InterruptLine) {
        let known = self.isa_interrupts.iter().any(|other| other.source == isa);
        if !known && usize::from(isa) < ISA_INTERRUPTS {
            let _full = self.isa_interrupts.push(IsaInterrupt { source: isa, line });
        }
    }
}

/// An I/O APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoApic {
    /// I/O APIC ID, to which entries of the tables refer.
    pub id: u8,
    /// Physical address of the registers.
    pub address: u64,
    /// Global system interrupt base: the number of the first input.
    ///
    /// The MultiProcessor Specification has no global numbers. For its tables, this crate assumes that each
    /// I/O APIC has 24 inputs, like the 82093AA.
    pub gsi_base: u32,
}

/// Description of an ISA interrupt (interrupt source override).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsaInterrupt {
    /// ISA interrupt number.
    pub source: u8,
    /// The interrupt line to which it is wired.
    pub line: InterruptLine,
}

/// An input of the I/O APICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptLine {
    /// Global system interrupt number, see [`IoApic::gsi_base`].
    pub gsi: u32,
    /// Polarity of the input.
    pub polarity: Polarity,
    /// Trigger mode of the input.
    pub trigger: TriggerMode,
}

impl InterruptLine {
    /// An input with the defaults of the ISA bus: active high, edge-triggered.
    const fn isa(gsi: u32) -> Self {
        Self { gsi, polarity: Polarity::High, trigger: TriggerMode::Edge }
    }

    /// An input with the MPS INTI flags that both kinds of tables have (ACPI 6.5, table 5.26; MultiProcessor
    /// Specification 1.4, table 4-10). Reserved values mean the defaults of the ISA bus.
    const fn with_flags(gsi: u32, flags: u16) -> Self {
        let polarity = if flags & 3 == 3 { Polarity::Low } else { Polarity::High };
        let trigger = if (flags >> 2) & 3 == 3 { TriggerMode::Level } else { TriggerMode::Edge };
        Self { gsi, polarity, trigger }
    }
}

/// Polarity of an interrupt input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polarity {
    /// Active high.
    High,
    /// Active low.
    Low,
}

/// Trigger mode of an interrupt input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerMode {
    /// Edge-triggered.
    Edge,
    /// Level-triggered.
    Level,
}

/// Writing `value` to the I/O port `port` resets the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// I/O port of the register (`RESET_REG`).
    pub port: u16,
    /// Value to write (`RESET_VALUE`).
    pub value: u8,
}

/// The power button of ACPI's fixed hardware (ACPI 6.5, section 4.8.3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedPowerButton {
    /// ISA interrupt of the button (`SCI_INT`).
    pub interrupt: u8,
    /// I/O port of the PM1a status register, of 16 bits (`PM1a_EVT_BLK`).
    pub status: u16,
    /// I/O port of the PM1a enable register, of 16 bits.
    pub enable: u16,
    /// Method to switch the hardware to ACPI mode; `None` if it has no other mode.
    pub acpi_mode: Option<AcpiMode>,
}

/// Method to switch the hardware to ACPI mode: write `value` to `command`, then wait until `SCI_EN` is set in
/// `control`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcpiMode {
    /// I/O port of the command register (`SMI_CMD`).
    pub command: u16,
    /// Value to write (`ACPI_ENABLE`).
    pub value: u8,
    /// I/O port of the PM1a control register, of 16 bits.
    pub control: u16,
}

/// The power button of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerButton {
    /// A button of ACPI's fixed hardware.
    Fixed(FixedPowerButton),
    /// An event of the Generic Event Device of QEMU's `microvm`. The device has its event selector at this
    /// physical address, and raises [`MICROVM_EVENT_INTERRUPT`].
    Event(u64),
}

/// ISA interrupt of the Generic Event Device of QEMU's `microvm` (`GED_MMIO_IRQ`).
pub const MICROVM_EVENT_INTERRUPT: u8 = 9;

/// Reads the firmware tables in `memory`. Returns `None` if there are no valid tables.
///
/// `rsdp` is the physical address of the root system description pointer, if the boot protocol provides it.
/// If it is missing or invalid, this searches memory for it (ACPI 6.5, section 5.2.5.1). ACPI tables without
/// a processor are ignored.
#[must_use]
pub fn platform_info(memory: &impl PhysicalMemory, rsdp: Option<u64>) -> Option<PlatformInfo> {
    acpi::platform_info(memory, rsdp).or_else(|| multiprocessor::platform_info(memory))
}
