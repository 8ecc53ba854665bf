//! The way to the tables: the root system description pointer and the table of tables (sections 5.2.5 to 5.2.8).

use core::ops::Range;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::PhysicalMemory;
use crate::reader::{Table, extended_data, read, search};

/// Begins a root system description pointer.
const POINTER_SIGNATURE: [u8; 8] = *b"RSD PTR ";

/// Where the BIOS keeps what is not in its extended data area (section 5.2.5.1).
const BIOS: Range<u64> = 0xe_0000..0x10_0000;

/// How many pointers with a right checksum are tried.
const MAX_POINTERS: usize = 4;

/// How many tables of a root table are looked at. Large servers have some forty.
const MAX_TABLES: usize = 128;

/// The size of a pointer of ACPI 1.0, which the first checksum covers, in bytes.
const POINTER_SIZE_1: u32 = 20;

/// The root system description pointer (section 5.2.5.3).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Pointer {
    signature: [u8; 8],
    _checksum: u8,
    _oem: [u8; 6],
    /// 0 in ACPI 1.0, which has no more than the next field; 2 since.
    revision: u8,
    /// Physical address of the root table with 32-bit addresses.
    rsdt: U32,
}

/// What ACPI 2.0 added to the [`Pointer`].
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Extension {
    /// Size of the pointer with its extension, in bytes.
    length: U32,
    /// Physical address of the root table with 64-bit addresses.
    xsdt: U64,
    _checksum: u8,
    _reserved: [u8; 3],
}

/// How every table begins (section 5.2.6).
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Header {
    signature: [u8; 4],
    /// The whole table's, in bytes.
    length: U32,
    _revision: u8,
    _checksum: u8,
    _oem: [u8; 6],
    _oem_table: [u8; 8],
    _oem_revision: U32,
    _creator: [u8; 8],
}

/// The size of a table's [`Header`], in bytes.
pub(super) const HEADER_SIZE: u32 = 36;

/// The table that lists all others.
pub(super) struct Root<'memory> {
    memory: &'memory dyn PhysicalMemory,
    table: Table<'memory>,
    /// Whether the addresses in it have 64 bits.
    wide: bool,
}

impl<'memory> Root<'memory> {
    /// The root table to which the pointer at `known` leads, or any in the places where the BIOS leaves one.
    pub(super) fn find(memory: &'memory dyn PhysicalMemory, known: Option<u64>) -> Option<Self> {
        let found = [extended_data(memory), BIOS].into_iter();
        let found = found.flat_map(|range| search(memory, range, POINTER_SIGNATURE));
        let pointers = known.into_iter().chain(found).filter_map(|address| pointer(memory, address));
        pointers.take(MAX_POINTERS).find_map(|(xsdt, rsdt)| {
            let wide = xsdt.and_then(|address| table(memory, address, *b"XSDT"));
            let narrow = || table(memory, rsdt, *b"RSDT").map(|table| Self { memory, table, wide: false });
            wide.map(|table| Self { memory, table, wide: true }).or_else(narrow)
        })
    }

    /// The first valid table with a signature.
    pub(super) fn table(&self, signature: [u8; 4]) -> Option<Table<'memory>> {
        let open = |address| table(self.memory, address, signature);
        if self.wide {
            self.table.array(HEADER_SIZE, MAX_TABLES).map(U64::get).find_map(open)
        } else {
            self.table
                .array(HEADER_SIZE, MAX_TABLES)
                .map(|address: U32| u64::from(address.get()))
                .find_map(open)
        }
    }
}

/// The addresses of the two root tables, wide and narrow, if there is a valid pointer at `address`.
fn pointer(memory: &dyn PhysicalMemory, address: u64) -> Option<(Option<u64>, u64)> {
    let pointer: Pointer = read(memory, address)?;
    if pointer.signature != POINTER_SIGNATURE {
        return None;
    }
    Table::open(memory, address, POINTER_SIZE_1)?;
    let xsdt = if pointer.revision >= 2 { xsdt(memory, address) } else { None };
    Some((xsdt, u64::from(pointer.rsdt.get())))
}

/// The address of the wide root table, if the pointer's extension is valid.
fn xsdt(memory: &dyn PhysicalMemory, address: u64) -> Option<u64> {
    let extension: Extension = read(memory, address.checked_add(u64::from(POINTER_SIZE_1))?)?;
    let whole = Table::open(memory, address, extension.length.get())?;
    let extension: Extension = whole.get(POINTER_SIZE_1)?;
    Some(extension.xsdt.get())
}

/// The table at `address`, if it has this signature and is valid.
fn table(memory: &dyn PhysicalMemory, address: u64, signature: [u8; 4]) -> Option<Table<'_>> {
    let header: Header = read(memory, address)?;
    if header.signature != signature || header.length.get() < HEADER_SIZE {
        return None;
    }
    Table::open(memory, address, header.length.get())
}
