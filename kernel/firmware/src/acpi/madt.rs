//! The multiple APIC description table (MADT): processors and interrupt controllers (section 5.2.12).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::root::HEADER_SIZE;
use crate::reader::FirmwareTable;
use crate::{InterruptLine, IoApic, PlatformInfo};

/// Signature of the table.
pub(super) const SIGNATURE: [u8; 4] = *b"APIC";

/// The fixed fields between the header and the interrupt controller structures.
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct FixedFields {
    /// Local Interrupt Controller Address.
    local_apic_address: U32,
    _flags: U32,
}

/// Offset of the interrupt controller structures.
const STRUCTURES: u32 = HEADER_SIZE + 8;

/// Header of every interrupt controller structure.
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct StructureHeader {
    kind: u8,
    /// Size of the structure in bytes.
    length: u8,
}

/// Size of a [`StructureHeader`], and so the minimum size of a structure.
const MIN_LENGTH: u8 = 2;

/// Processor Local APIC structure (section 5.2.12.2).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct LocalApic {
    _start: StructureHeader,
    _processor: u8,
    apic_id: u8,
    flags: U32,
}

/// Processor Local x2APIC structure (section 5.2.12.12).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct LocalX2Apic {
    _start: StructureHeader,
    _reserved: U16,
    x2apic_id: U32,
    flags: U32,
    _processor: U32,
}

/// Local APIC flag `Enabled`.
const ENABLED: u32 = 1 << 0;

/// I/O APIC structure (section 5.2.12.3).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct IoApicStructure {
    _start: StructureHeader,
    id: u8,
    _reserved: u8,
    address: U32,
    gsi_base: U32,
}

/// Interrupt Source Override structure (section 5.2.12.5).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct InterruptSourceOverride {
    _start: StructureHeader,
    /// Always [`ISA_BUS`].
    bus: u8,
    /// Interrupt number on the bus.
    source: u8,
    gsi: U32,
    flags: U16,
}

/// Bus number of the ISA bus.
const ISA_BUS: u8 = 0;

/// Local APIC Address Override structure (section 5.2.12.8).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct LocalApicAddressOverride {
    _start: StructureHeader,
    _reserved: U16,
    address: U64,
}

/// Reads the table; `None` without an enabled processor.
pub(super) fn platform_info(table: FirmwareTable<'_>) -> Option<PlatformInfo> {
    let fixed: FixedFields = table.get(HEADER_SIZE)?;
    let mut info = PlatformInfo::new(u64::from(fixed.local_apic_address.get()));
    let mut offset = STRUCTURES;
    // Terminates: every structure has at least two bytes.
    while let Some(StructureHeader { kind, length }) = table.get(offset) {
        let structure = table.part(offset, u32::from(length));
        let Some(structure) = structure.filter(|_| length >= MIN_LENGTH) else { break };
        // A structure that is too short for its type is ignored.
        let _too_short = add(&mut info, kind, structure);
        offset += u32::from(length);
    }
    (!info.cpus.is_empty()).then_some(info)
}

/// Adds an interrupt controller structure; `None` if it is too short for its type.
fn add(info: &mut PlatformInfo, kind: u8, structure: FirmwareTable<'_>) -> Option<()> {
    match kind {
        0 => {
            let cpu: LocalApic = structure.get(0)?;
            // 0xff is the broadcast ID.
            if cpu.flags.get() & ENABLED != 0 && cpu.apic_id != u8::MAX {
                info.add_cpu(u32::from(cpu.apic_id));
            }
        }
        1 => {
            let io_apic: IoApicStructure = structure.get(0)?;
            let address = u64::from(io_apic.address.get());
            info.add_io_apic(IoApic { id: io_apic.id, address, gsi_base: io_apic.gsi_base.get() });
        }
        2 => {
            let entry: InterruptSourceOverride = structure.get(0)?;
            if entry.bus == ISA_BUS {
                info.add_isa_interrupt(
                    entry.source,
                    InterruptLine::with_flags(entry.gsi.get(), entry.flags.get()),
                );
            }
        }
        5 => {
            let entry: LocalApicAddressOverride = structure.get(0)?;
            info.local_apic_address = entry.address.get();
        }
        9 => {
            let cpu: LocalX2Apic = structure.get(0)?;
            if cpu.flags.get() & ENABLED != 0 && cpu.x2apic_id != u32::MAX {
                info.add_cpu(cpu.x2apic_id.get());
            }
        }
        _ => {}
    }
    Some(())
}
