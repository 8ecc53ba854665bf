//! The root system description pointer (RSDP) and the root tables RSDT and XSDT (sections 5.2.5 to 5.2.8).

use core::ops::Range;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::PhysicalMemory;
use crate::reader::{FirmwareTable, extended_bios_data, read, search};

/// Signature of the RSDP.
const POINTER_SIGNATURE: [u8; 8] = *b"RSD PTR ";

/// BIOS read-only memory, which is searched for the RSDP after the extended BIOS data area (section 5.2.5.1).
/// Under Miri, only the page in which tests place the RSDP.
const BIOS_ROM: Range<u64> = if cfg!(miri) { 0xf_5000..0xf_6000 } else { 0xe_0000..0x10_0000 };

/// Maximum number of valid RSDPs that are tried.
const MAX_POINTERS: usize = 4;

/// Maximum number of tables of a root table that are read. Large servers have about forty tables.
const MAX_TABLES: usize = 128;

/// Size of the RSDP of ACPI 1.0 in bytes, which the first checksum covers.
const RSDP_1_SIZE: u32 = 20;

/// The root system description pointer (section 5.2.5.3).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Rsdp {
    signature: [u8; 8],
    _checksum: u8,
    _oem: [u8; 6],
    /// 0 for ACPI 1.0, which ends with the next field; 2 since ACPI 2.0.
    revision: u8,
    /// Physical address of the RSDT.
    rsdt: U32,
}

/// The fields that ACPI 2.0 added to the [`Rsdp`].
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Extension {
    /// Size of the RSDP with these fields, in bytes.
    length: U32,
    /// Physical address of the XSDT.
    xsdt: U64,
    _checksum: u8,
    _reserved: [u8; 3],
}

/// Header of every table (section 5.2.6).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct SdtHeader {
    signature: [u8; 4],
    /// Size of the table in bytes.
    length: U32,
    _revision: u8,
    _checksum: u8,
    _oem: [u8; 6],
    _oem_table: [u8; 8],
    _oem_revision: U32,
    _creator: [u8; 8],
}

/// Size of a [`SdtHeader`] in bytes.
pub(super) const HEADER_SIZE: u32 = 36;

/// The root table, RSDT or XSDT, which lists the other tables.
pub(super) struct Root<'memory> {
    memory: &'memory dyn PhysicalMemory,
    table: FirmwareTable<'memory>,
    /// True if it is an XSDT, with addresses of 64 bits.
    is_xsdt: bool,
}

impl<'memory> Root<'memory> {
    /// Finds the root table through the RSDP at `known`, or through an RSDP in the BIOS memory areas.
    pub(super) fn find(memory: &'memory dyn PhysicalMemory, known: Option<u64>) -> Option<Self> {
        let found = search(memory, [extended_bios_data(memory), BIOS_ROM], &POINTER_SIGNATURE);
        let pointers = known.into_iter().chain(found).filter_map(|address| pointer(memory, address));
        pointers.take(MAX_POINTERS).find_map(|(xsdt, rsdt)| {
            let extended = xsdt.and_then(|address| table(memory, address, *b"XSDT"));
            let root = || table(memory, rsdt, *b"RSDT").map(|table| Self { memory, table, is_xsdt: false });
            extended.map(|table| Self { memory, table, is_xsdt: true }).or_else(root)
        })
    }

    /// The first valid table with a signature.
    pub(super) fn table(&self, signature: [u8; 4]) -> Option<FirmwareTable<'memory>> {
        let open = |address| table(self.memory, address, signature);
        if self.is_xsdt {
            self.table.array(HEADER_SIZE, MAX_TABLES).map(U64::get).find_map(open)
        } else {
            self.table
                .array(HEADER_SIZE, MAX_TABLES)
                .map(|address: U32| u64::from(address.get()))
                .find_map(open)
        }
    }
}

/// The addresses of XSDT and RSDT, if there is a valid RSDP at `address`.
fn pointer(memory: &dyn PhysicalMemory, address: u64) -> Option<(Option<u64>, u64)> {
    let pointer: Rsdp = read(memory, address)?;
    if pointer.signature != POINTER_SIGNATURE {
        return None;
    }
    FirmwareTable::open(memory, address, RSDP_1_SIZE)?;
    let xsdt = if pointer.revision >= 2 { xsdt(memory, address) } else { None };
    Some((xsdt, u64::from(pointer.rsdt.get())))
}

/// The address of the XSDT, if the extended RSDP is valid.
fn xsdt(memory: &dyn PhysicalMemory, address: u64) -> Option<u64> {
    let extension: Extension = read(memory, address.checked_add(u64::from(RSDP_1_SIZE))?)?;
    let whole = FirmwareTable::open(memory, address, extension.length.get())?;
    let extension: Extension = whole.get(RSDP_1_SIZE)?;
    Some(extension.xsdt.get())
}

/// The table at `address`, if it has this signature and is valid.
fn table(memory: &dyn PhysicalMemory, address: u64, signature: [u8; 4]) -> Option<FirmwareTable<'_>> {
    let header: SdtHeader = read(memory, address)?;
    if header.signature != signature || header.length.get() < HEADER_SIZE {
        return None;
    }
    FirmwareTable::open(memory, address, header.length.get())
}
