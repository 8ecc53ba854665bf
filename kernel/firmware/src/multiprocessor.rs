//! The tables of Intel's MultiProcessor Specification, version 1.4.
//!
//! Small virtual machine monitors still provide these tables instead of ACPI tables. This module does not
//! support default configurations (chapter 5), which have no table and are for systems with two 486
//! processors.

use core::ops::Range;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use crate::reader::{FirmwareTable, extended_bios_data, read, search};
use crate::{InterruptLine, IoApic, PhysicalMemory, PlatformInfo};

/// Signature of the MP floating pointer structure.
const POINTER_SIGNATURE: [u8; 4] = *b"_MP_";

/// Signature of the MP configuration table.
const TABLE_SIGNATURE: [u8; 4] = *b"PCMP";

/// Maximum number of valid floating pointer structures that are tried.
const MAX_POINTERS: usize = 4;

/// Address of the BIOS data area's size of base memory, in KiB.
const BASE_MEMORY_SIZE: u64 = 0x413;

/// MP floating pointer structure (section 4.1).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Pointer {
    _signature: [u8; 4],
    /// Physical address of the configuration table (`PHYSICAL ADDRESS POINTER`); 0 if there is none.
    table: U32,
    /// Size of the structure in units of 16 bytes.
    length: u8,
    _revision: u8,
    _checksum: u8,
    _features: [u8; 5],
}

/// MP configuration table header (section 4.2).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct ConfigTableHeader {
    signature: [u8; 4],
    /// Size of the base table with all entries, in bytes (`BASE TABLE LENGTH`).
    length: U16,
    _revision: u8,
    _checksum: u8,
    _oem: [u8; 8],
    _product: [u8; 12],
    _oem_table: U32,
    _oem_table_size: U16,
    /// Number of entries (`ENTRY COUNT`). Not reliable: QEMU's qboot writes 0.
    _entries: U16,
    /// Memory-mapped address of the local APICs.
    local_apic_address: U32,
    _extended: U32,
}

/// Offset of the entries.
const ENTRIES: u32 = 44;

/// Processor entry (section 4.3.1).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct ProcessorEntry {
    _kind: u8,
    local_apic_id: u8,
    _version: u8,
    flags: u8,
    _features: [u8; 16],
}

/// Flag `EN` of a processor or I/O APIC that is usable.
const ENABLED: u8 = 1 << 0;

/// Bus entry (section 4.3.2).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct BusEntry {
    _kind: u8,
    id: u8,
    name: [u8; 6],
}

/// I/O APIC entry (section 4.3.3).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct IoApicEntry {
    _kind: u8,
    id: u8,
    _version: u8,
    flags: u8,
    address: U32,
}

/// I/O interrupt assignment entry (section 4.3.4).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct InterruptEntry {
    _kind: u8,
    /// Interrupt type: [`VECTORED`], or NMI, SMI and `ExtINT`.
    interrupt_type: u8,
    flags: U16,
    source_bus_id: u8,
    /// Interrupt number on the source bus.
    source_bus_irq: u8,
    destination_io_apic_id: u8,
    /// Input of the destination I/O APIC (`INTIN#`).
    destination_intin: u8,
}

/// Interrupt type `INT`: the I/O APIC's redirection table has the vector.
const VECTORED: u8 = 0;

/// Destination ID of all I/O APICs.
const EVERY_IO_APIC: u8 = u8::MAX;

/// Assumed number of inputs of an I/O APIC; see [`IoApic::gsi_base`].
const IO_APIC_INPUTS: u32 = 24;

/// Reads the MP tables; `None` without tables or without an enabled processor.
pub(crate) fn platform_info(memory: &dyn PhysicalMemory) -> Option<PlatformInfo> {
    let tables = search(memory, search_areas(memory), &POINTER_SIGNATURE);
    let tables = tables.filter_map(|address| configuration_address(memory, address)).take(MAX_POINTERS);
    tables.filter_map(|address| configuration(memory, address)).find(|info| !info.cpus.is_empty())
}

/// BIOS read-only memory. Under Miri, only the page in which tests place the pointer.
const BIOS_ROM: Range<u64> = if cfg!(miri) { 0xf_5000..0xf_6000 } else { 0xf_0000..0x10_0000 };

/// Areas that may contain the floating pointer structure (section 4), for both usual sizes of base memory.
fn search_areas(memory: &dyn PhysicalMemory) -> [Range<u64>; 4] {
    let size = read(memory, BASE_MEMORY_SIZE).map_or(0, U16::get);
    let last_kib = |size: u64| (size - 1) << 10..size << 10;
    let base_memory = if (1..=640).contains(&size) { last_kib(u64::from(size)) } else { 0..0 };
    [extended_bios_data(memory), base_memory, last_kib(640), BIOS_ROM]
}

/// The address of the configuration table, if there is a valid floating pointer structure at `address`.
fn configuration_address(memory: &dyn PhysicalMemory, address: u64) -> Option<u64> {
    let pointer: Pointer = read(memory, address)?;
    FirmwareTable::open(memory, address, u32::from(pointer.length) * 16)?;
    let table = pointer.table.get();
    (table != 0).then_some(u64::from(table))
}

/// Reads the configuration table at `address`, if it is valid.
fn configuration(memory: &dyn PhysicalMemory, address: u64) -> Option<PlatformInfo> {
    let header: ConfigTableHeader = read(memory, address)?;
    let length = u32::from(header.length.get());
    if header.signature != TABLE_SIGNATURE || length < ENTRIES {
        return None;
    }
    let table = FirmwareTable::open(memory, address, length)?;
    let mut info = PlatformInfo::new(u64::from(header.local_apic_address.get()));
    let mut isa_bus = None;
    let mut offset = ENTRIES;
    // Terminates: no entry is empty.
    while let Some(size) = add(&mut info, &mut isa_bus, table, offset) {
        offset += size;
    }
    Some(info)
}

/// Adds an entry. Returns its size in bytes; `None` if it is truncated or of an unknown type.
///
/// Entries are sorted by type, so bus and I/O APIC entries precede the interrupt entries that refer to them.
fn add(
    info: &mut PlatformInfo,
    isa_bus: &mut Option<u8>,
    table: FirmwareTable<'_>,
    offset: u32,
) -> Option<u32> {
    match table.get::<u8>(offset)? {
        0 => {
            let cpu: ProcessorEntry = table.get(offset)?;
            // 0xff is the broadcast ID.
            if cpu.flags & ENABLED != 0 && cpu.local_apic_id != u8::MAX {
                info.add_cpu(u32::from(cpu.local_apic_id));
            }
            return Some(20);
        }
        1 => {
            let bus: BusEntry = table.get(offset)?;
            if bus.name == *b"ISA   " {
                isa_bus.get_or_insert(bus.id);
            }
        }
        2 => {
            let entry: IoApicEntry = table.get(offset)?;
            let gsi_base = info.io_apics.last().map_or(0, |last| last.gsi_base + IO_APIC_INPUTS);
            if entry.flags & ENABLED != 0 {
                let address = u64::from(entry.address.get());
                info.add_io_apic(IoApic { id: entry.id, address, gsi_base });
            }
        }
        3 => {
            let interrupt: InterruptEntry = table.get(offset)?;
            if interrupt.interrupt_type == VECTORED && Some(interrupt.source_bus_id) == *isa_bus {
                add_isa_interrupt(info, &interrupt);
            }
        }
        // Local interrupt assignment.
        4 => {}
        _ => return None,
    }
    Some(8)
}

/// Adds an ISA interrupt, if its I/O APIC is known.
fn add_isa_interrupt(info: &mut PlatformInfo, interrupt: &InterruptEntry) {
    let is_destination = |io_apic: &&IoApic| {
        io_apic.id == interrupt.destination_io_apic_id || interrupt.destination_io_apic_id == EVERY_IO_APIC
    };
    let gsi_base = info.io_apics.iter().find(is_destination).map(|io_apic| io_apic.gsi_base);
    if let Some(gsi_base) = gsi_base {
        let line = InterruptLine::with_flags(
            gsi_base + u32::from(interrupt.destination_intin),
            interrupt.flags.get(),
        );
        info.add_isa_interrupt(interrupt.source_bus_irq, line);
    }
}
