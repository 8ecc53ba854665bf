//! The tables of Intel's MultiProcessor Specification, version 1.4.
//!
//! Small virtual machine monitors still make them instead of ACPI's. The default configurations without a table
//! (chapter 5) are those of machines with two 486 processors and are not known here.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use crate::reader::{Table, extended_data, read, search};
use crate::{IoApic, Line, PhysicalMemory, PlatformInfo};

/// Begins a floating pointer.
const POINTER_SIGNATURE: [u8; 4] = *b"_MP_";

/// Begins a configuration table.
const TABLE_SIGNATURE: [u8; 4] = *b"PCMP";

/// How many pointers with a right checksum are tried.
const MAX_POINTERS: usize = 4;

/// Where the BIOS keeps the size of the memory below 640 KiB, in KiB.
const BASE_MEMORY_SIZE: u64 = 0x413;

/// The floating pointer (section 4.1).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Pointer {
    _signature: [u8; 4],
    /// Physical address of the configuration table; 0 if there is none.
    table: U32,
    /// The pointer's own, in units of 16 bytes.
    length: u8,
    _revision: u8,
    _checksum: u8,
    _features: [u8; 5],
}

/// The configuration table's header (section 4.2).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Header {
    signature: [u8; 4],
    /// Of the header and all entries, in bytes.
    length: U16,
    _revision: u8,
    _checksum: u8,
    _oem: [u8; 8],
    _product: [u8; 12],
    _oem_table: U32,
    _oem_table_size: U16,
    /// How many entries follow. Not to be relied on: QEMU's qboot says 0.
    _entries: U16,
    /// Where every processor finds its local APIC.
    local_apic: U32,
    _extended: U32,
}

/// Where the entries begin.
const ENTRIES: u32 = 44;

/// A processor (section 4.3.1).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Processor {
    _kind: u8,
    id: u8,
    _version: u8,
    flags: u8,
    _features: [u8; 16],
}

/// The flag of a processor, or of an I/O APIC, that is ready for use.
const ENABLED: u8 = 1 << 0;

/// A bus (section 4.3.2).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Bus {
    _kind: u8,
    id: u8,
    name: [u8; 6],
}

/// An I/O APIC (section 4.3.3).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct IoApicEntry {
    _kind: u8,
    id: u8,
    _version: u8,
    flags: u8,
    address: U32,
}

/// Where a line of a bus arrives (section 4.3.4).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct InterruptEntry {
    _kind: u8,
    /// [`ORDINARY_INTERRUPT`], or other kinds that no I/O APIC numbers.
    interrupt: u8,
    flags: U16,
    bus: u8,
    /// The line's number on the bus.
    source: u8,
    /// The identifier of the I/O APIC.
    io_apic: u8,
    /// Which of its lines.
    line: u8,
}

/// An interrupt whose vector the I/O APIC gives.
const ORDINARY_INTERRUPT: u8 = 0;

/// The identifier that means every I/O APIC.
const EVERY_IO_APIC: u8 = u8::MAX;

/// How many lines an I/O APIC is taken to have; see [`IoApic::first_line`].
const LINES: u32 = 24;

/// What the tables say; `None` if there are none or they do not mention a processor.
pub(crate) fn platform_info(memory: &dyn PhysicalMemory) -> Option<PlatformInfo> {
    let tables = places(memory).into_iter().flat_map(|place| search(memory, place, POINTER_SIGNATURE));
    let tables = tables.filter_map(|address| configuration_address(memory, address)).take(MAX_POINTERS);
    tables.filter_map(|address| configuration(memory, address)).find(|machine| !machine.cpus.is_empty())
}

/// Where a floating pointer may be (section 4, with both usual ends of base memory).
fn places(memory: &dyn PhysicalMemory) -> [core::ops::Range<u64>; 4] {
    let size = read(memory, BASE_MEMORY_SIZE).map_or(0, U16::get);
    let last_kib = |size: u64| (size - 1) << 10..size << 10;
    let base_memory = if (1..=640).contains(&size) { last_kib(u64::from(size)) } else { 0..0 };
    [extended_data(memory), base_memory, last_kib(640), 0xf_0000..0x10_0000]
}

/// The address of the configuration table to which a valid floating pointer at `address` leads.
fn configuration_address(memory: &dyn PhysicalMemory, address: u64) -> Option<u64> {
    let pointer: Pointer = read(memory, address)?;
    Table::open(memory, address, u32::from(pointer.length) * 16)?;
    let table = pointer.table.get();
    (table != 0).then_some(u64::from(table))
}

/// What the configuration table at `address` says, if it is valid.
fn configuration(memory: &dyn PhysicalMemory, address: u64) -> Option<PlatformInfo> {
    let header: Header = read(memory, address)?;
    let length = u32::from(header.length.get());
    if header.signature != TABLE_SIGNATURE || length < ENTRIES {
        return None;
    }
    let table = Table::open(memory, address, length)?;
    let mut machine = PlatformInfo::new(u64::from(header.local_apic.get()));
    let mut isa_bus = None;
    let mut offset = ENTRIES;
    // Ends with the table at the latest: no entry is empty.
    while let Some(size) = add(&mut machine, &mut isa_bus, table, offset) {
        offset += size;
    }
    Some(machine)
}

/// Adds what an entry says. Returns its size in bytes, or `None` if it is cut short or of an unknown kind.
///
/// Entries are sorted by kind, so buses and I/O APICs are known when interrupts speak of them.
fn add(machine: &mut PlatformInfo, isa_bus: &mut Option<u8>, table: Table<'_>, offset: u32) -> Option<u32> {
    match table.get::<u8>(offset)? {
        0 => {
            let cpu: Processor = table.get(offset)?;
            // The last identifier means all processors, so it is nobody's.
            if cpu.flags & ENABLED != 0 && cpu.id != u8::MAX {
                machine.add_cpu(u32::from(cpu.id));
            }
            return Some(20);
        }
        1 => {
            let bus: Bus = table.get(offset)?;
            if bus.name == *b"ISA   " {
                isa_bus.get_or_insert(bus.id);
            }
        }
        2 => {
            let entry: IoApicEntry = table.get(offset)?;
            let first_line = machine.io_apics.last().map_or(0, |last| last.first_line + LINES);
            if entry.flags & ENABLED != 0 {
                let address = u64::from(entry.address.get());
                machine.add_io_apic(IoApic { id: entry.id, address, first_line });
            }
        }
        3 => {
            let interrupt: InterruptEntry = table.get(offset)?;
            if interrupt.interrupt == ORDINARY_INTERRUPT && Some(interrupt.bus) == *isa_bus {
                add_isa_line(machine, &interrupt);
            }
        }
        // Lines of the local APICs.
        4 => {}
        _ => return None,
    }
    Some(8)
}

/// Adds what is said about a line of the ISA bus, if its I/O APIC is known.
fn add_isa_line(machine: &mut PlatformInfo, interrupt: &InterruptEntry) {
    let is_meant = |io_apic: &&IoApic| io_apic.id == interrupt.io_apic || interrupt.io_apic == EVERY_IO_APIC;
    let first_line = machine.io_apics.iter().find(is_meant).map(|io_apic| io_apic.first_line);
    if let Some(first_line) = first_line {
        let line = Line::with_flags(first_line + u32::from(interrupt.line), interrupt.flags.get());
        machine.add_isa_line(interrupt.source, line);
    }
}
