//! The multiple APIC description table: processors and interrupt controllers (section 5.2.12).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::root::HEADER_SIZE;
use crate::reader::Table;
use crate::{IoApic, Line, PlatformInfo};

/// Begins the table.
pub(super) const SIGNATURE: [u8; 4] = *b"APIC";

/// What stands between the header and the records.
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Start {
    /// Where every processor finds its local APIC.
    local_apic: U32,
    _flags: U32,
}

/// Where the records begin.
const RECORDS: u32 = HEADER_SIZE + 8;

/// How every record begins.
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct RecordStart {
    kind: u8,
    /// The whole record's, in bytes.
    length: u8,
}

/// The size of a [`RecordStart`], and so of the shortest record.
const RECORD_START: u8 = 2;

/// A processor with an identifier of 8 bits (section 5.2.12.2).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct LocalApic {
    _start: RecordStart,
    _processor: u8,
    id: u8,
    flags: U32,
}

/// A processor with an identifier of 32 bits (section 5.2.12.12).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct LocalX2Apic {
    _start: RecordStart,
    _reserved: U16,
    id: U32,
    flags: U32,
    _processor: U32,
}

/// The flag of a processor that is ready for use.
const ENABLED: u32 = 1 << 0;

/// An I/O APIC (section 5.2.12.3).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct IoApicRecord {
    _start: RecordStart,
    id: u8,
    _reserved: u8,
    address: U32,
    first_line: U32,
}

/// Where a line of a bus arrives (section 5.2.12.5).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct SourceOverride {
    _start: RecordStart,
    /// Always [`ISA_BUS`].
    bus: u8,
    /// The line's number on the bus.
    source: u8,
    line: U32,
    flags: U16,
}

/// The number of the ISA bus.
const ISA_BUS: u8 = 0;

/// A local APIC address of 64 bits (section 5.2.12.8).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct AddressOverride {
    _start: RecordStart,
    _reserved: U16,
    address: U64,
}

/// What the table says; `None` if there is no enabled processor.
pub(super) fn platform_info(table: Table<'_>) -> Option<PlatformInfo> {
    let start: Start = table.get(HEADER_SIZE)?;
    let mut machine = PlatformInfo::new(u64::from(start.local_apic.get()));
    let mut offset = RECORDS;
    // Ends with the table at the latest: every record has at least two bytes.
    while let Some(RecordStart { kind, length }) = table.get(offset) {
        let record = table.part(offset, u32::from(length));
        let Some(record) = record.filter(|_| length >= RECORD_START) else { break };
        // One that is too short for its kind says nothing.
        let _too_short = add(&mut machine, kind, record);
        offset += u32::from(length);
    }
    (!machine.cpus.is_empty()).then_some(machine)
}

/// Adds what a record says; `None` if it is too short for its kind.
fn add(machine: &mut PlatformInfo, kind: u8, record: Table<'_>) -> Option<()> {
    match kind {
        0 => {
            let cpu: LocalApic = record.get(0)?;
            // The last identifier means all processors, so it is nobody's.
            if cpu.flags.get() & ENABLED != 0 && cpu.id != u8::MAX {
                machine.add_cpu(u32::from(cpu.id));
            }
        }
        1 => {
            let io_apic: IoApicRecord = record.get(0)?;
            let address = u64::from(io_apic.address.get());
            machine.add_io_apic(IoApic { id: io_apic.id, address, first_line: io_apic.first_line.get() });
        }
        2 => {
            let line: SourceOverride = record.get(0)?;
            if line.bus == ISA_BUS {
                machine.add_isa_line(line.source, Line::with_flags(line.line.get(), line.flags.get()));
            }
        }
        5 => {
            let local_apic: AddressOverride = record.get(0)?;
            machine.local_apic = local_apic.address.get();
        }
        9 => {
            let cpu: LocalX2Apic = record.get(0)?;
            if cpu.flags.get() & ENABLED != 0 && cpu.id != u32::MAX {
                machine.add_cpu(cpu.id.get());
            }
        }
        _ => {}
    }
    Some(())
}
