//! What firmware tables say about the machine: processors, interrupt controllers, timers, power.
//!
//! [`platform_info`] reads the ACPI tables or, where there are none, those of Intel's older MultiProcessor Specification.
//!
//! The tables are untrusted: any length may lie, tables may overlap, be cut short or point at themselves. So memory
//! is only read by copy, through [`PhysicalMemory`]; a table counts only if its checksum is right; and every loop
//! has a fixed limit, so that the worst tables cost some ten megabytes of reading. What the tables say, the
//! addresses above all, is still no more than a claim.
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

/// Most I/O APICs that are recorded; further ones are ignored.
pub const MAX_IO_APICS: usize = 8;

/// How many interrupt lines the ISA bus has.
pub const ISA_LINES: usize = 16;

/// Reads physical memory.
pub trait PhysicalMemory {
    /// Fills `bytes` from physical memory; false if a part is not readable.
    ///
    /// Any address may be asked for, but never a range that passes the end of the 64-bit numbers.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;
}

/// What the firmware says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformInfo {
    /// The APIC identifiers of the enabled processors, each once, in the tables' order; at least one.
    pub cpus: Vec<u32, MAX_CPUS>,
    /// The physical address at which every processor finds its own local APIC.
    pub local_apic: u64,
    /// The I/O APICs, each once.
    pub io_apics: Vec<IoApic, MAX_IO_APICS>,
    /// The lines of the ISA bus that the tables describe, each once; see [`PlatformInfo::isa_line`].
    pub isa_lines: Vec<IsaLine, ISA_LINES>,
    /// The physical address of the first HPET.
    pub hpet: Option<u64>,
    /// The I/O port of ACPI's PM1a control register, by which a machine is put to sleep and switched off.
    pub pm1a_control: Option<u16>,
    /// How to reset the machine.
    pub reset: Option<Reset>,
}

impl PlatformInfo {
    /// A machine with nothing but the address of its local APICs.
    fn new(local_apic: u64) -> Self {
        Self {
            cpus: Vec::new(),
            local_apic,
            io_apics: Vec::new(),
            isa_lines: Vec::new(),
            hpet: None,
            pm1a_control: None,
            reset: None,
        }
    }

    /// Where an interrupt line of the ISA bus arrives.
    ///
    /// A line that the tables do not mention has the same number, and behaves as the bus demands: rising edges.
    #[must_use]
    pub fn isa_line(&self, isa: u8) -> Line {
        let described = self.isa_lines.iter().find(|line| line.isa == isa);
        described.map_or(Line::isa(u32::from(isa)), |line| line.line)
    }

    /// Adds an enabled processor, once.
    fn add_cpu(&mut self, apic: u32) {
        if !self.cpus.contains(&apic) {
            // More than fit are ignored, as documented.
            let _full = self.cpus.push(apic);
        }
    }

    /// Adds an I/O APIC, once.
    fn add_io_apic(&mut self, io_apic: IoApic) {
        let known = self.io_apics.iter().any(|other| other.address == io_apic.address);
        if !known && io_apic.address != 0 {
            let _full = self.io_apics.push(io_apic);
        }
    }

    /// Adds what is said about a line of the ISA bus; what is said first counts.
    fn add_isa_line(&mut self, isa: u8, line: Line) {
        let known = self.isa_lines.iter().any(|other| other.isa == isa);
        if !known && usize::from(isa) < ISA_LINES {
            let _full = self.isa_lines.push(IsaLine { isa, line });
        }
    }
}

/// An I/O APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoApic {
    /// Its identifier, by which the tables speak of it.
    pub id: u8,
    /// The physical address of its registers.
    pub address: u64,
    /// The global number of its first line.
    ///
    /// The tables of the MultiProcessor Specification do not number lines over several I/O APICs. There each is taken to
    /// have 24, as the 82093AA has.
    pub first_line: u32,
}

/// What the tables say about an interrupt line of the ISA bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsaLine {
    /// Its number on the bus.
    pub isa: u8,
    /// Where it arrives.
    pub line: Line,
}

/// A line of the I/O APICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its global number, see [`IoApic::first_line`].
    pub number: u32,
    /// Which level means an interrupt.
    pub polarity: Polarity,
    /// What starts an interrupt.
    pub trigger: Trigger,
}

impl Line {
    /// A line that behaves as the ISA bus demands.
    const fn isa(number: u32) -> Self {
        Self { number, polarity: Polarity::High, trigger: Trigger::Edge }
    }

    /// A line whose behaviour is given by the flags that both kinds of tables have (ACPI 6.5, table 5.26;
    /// MultiProcessor Specification 1.4, table 4-10). Reserved values mean what the ISA bus demands.
    const fn with_flags(number: u32, flags: u16) -> Self {
        let polarity = if flags & 3 == 3 { Polarity::Low } else { Polarity::High };
        let trigger = if (flags >> 2) & 3 == 3 { Trigger::Level } else { Trigger::Edge };
        Self { number, polarity, trigger }
    }
}

/// Which level of a line means an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polarity {
    /// The high one.
    High,
    /// The low one.
    Low,
}

/// What of a line starts an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A change to the level that means an interrupt.
    Edge,
    /// That level, for as long as it lasts.
    Level,
}

/// Writing `value` to the I/O port `port` resets the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The port.
    pub port: u16,
    /// What to write, one byte.
    pub value: u8,
}

/// What the firmware tables in `memory` say about the machine; `None` if there are no usable ones.
///
/// `rsdp` is the physical address of ACPI's root system description pointer where the boot protocol told it. Without
/// it, or if there is nothing usable, the pointer is looked for as ACPI 6.5, section 5.2.5.1 says. ACPI tables
/// without a processor count as none.
#[must_use]
pub fn platform_info(memory: &impl PhysicalMemory, rsdp: Option<u64>) -> Option<PlatformInfo> {
    acpi::platform_info(memory, rsdp).or_else(|| multiprocessor::platform_info(memory))
}
