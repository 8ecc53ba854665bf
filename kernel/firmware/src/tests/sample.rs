//! Memory with firmware tables like QEMU's.

use std::cell::Cell;
use std::vec;
use std::vec::Vec;

use crate::PhysicalMemory;

/// Start of the part above 1 MiB of [`acpi`] and [`multiprocessor`].
pub(super) const HIGH: u64 = 0x7fe_0000;

/// Address of the RSDP in [`acpi`].
pub(super) const POINTER: u64 = 0xf_52e0;

/// Memory in two parts, the first MiB and one at [`HIGH`], which counts the bytes that are read.
#[derive(Clone)]
pub(super) struct TestMemory {
    pub(super) low: Vec<u8>,
    pub(super) high: Vec<u8>,
    pub(super) read: Cell<u64>,
}

impl TestMemory {
    pub(super) fn new() -> Self {
        Self { low: vec![0; 1 << 20], high: Vec::new(), read: Cell::new(0) }
    }

    /// Overwrites bytes in one of the parts.
    pub(super) fn write(&mut self, address: u64, bytes: &[u8]) {
        let (piece, start) =
            if address < HIGH { (&mut self.low, address) } else { (&mut self.high, address - HIGH) };
        let start = usize::try_from(start).unwrap();
        piece[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Appends a table to the high part; returns its address.
    pub(super) fn add(&mut self, table: &[u8]) -> u64 {
        let address = HIGH + self.high.len() as u64;
        self.high.extend_from_slice(table);
        address
    }
}

impl PhysicalMemory for TestMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        assert!(address.checked_add(bytes.len() as u64).is_some(), "beyond the address space");
        self.read.set(self.read.get() + bytes.len() as u64);
        let (piece, start) = if address < HIGH { (&self.low, address) } else { (&self.high, address - HIGH) };
        let Ok(start) = usize::try_from(start) else { return false };
        let Some(source) = piece.get(start..).and_then(|rest| rest.get(..bytes.len())) else { return false };
        bytes.copy_from_slice(source);
        true
    }
}

/// Concatenation of the little-endian bytes of all arguments.
macro_rules! bytes {
    ($($number:expr),* $(,)?) => {{
        let mut bytes = std::vec::Vec::<u8>::new();
        $(bytes.extend($number.to_le_bytes());)*
        bytes
    }};
}
pub(super) use bytes;

/// Sets the byte at `checksum` so that the sum of all bytes is zero.
pub(super) fn with_checksum(mut bytes: Vec<u8>, checksum: usize) -> Vec<u8> {
    bytes[checksum] = 0;
    let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    bytes[checksum] = sum.wrapping_neg();
    bytes
}

/// An ACPI table with a header.
pub(super) fn table(signature: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = signature.to_vec();
    bytes.extend((36 + u32::try_from(body.len()).unwrap()).to_le_bytes());
    bytes.extend([1, 0]);
    bytes.extend(b"BOCHS BXPC    \x01\0\0\0BXPC\x01\0\0\0");
    bytes.extend(body);
    with_checksum(bytes, 9)
}

/// An RSDT.
pub(super) fn rsdt(addresses: &[u64]) -> Vec<u8> {
    let narrow = addresses.iter().flat_map(|&address| u32::try_from(address).unwrap().to_le_bytes());
    table(b"RSDT", &narrow.collect::<Vec<_>>())
}

/// An RSDP of ACPI 1.0, or of ACPI 2.0 if there is an XSDT.
pub(super) fn pointer(rsdt: u64, xsdt: Option<u64>) -> Vec<u8> {
    let mut bytes = b"RSD PTR \0BOCHS ".to_vec();
    bytes.push(if xsdt.is_some() { 2 } else { 0 });
    bytes.extend(u32::try_from(rsdt).unwrap().to_le_bytes());
    let bytes = with_checksum(bytes, 8);
    match xsdt {
        None => bytes,
        Some(xsdt) => with_checksum([bytes, bytes![36_u32, xsdt, 0_u32]].concat(), 32),
    }
}

/// Processor Local APIC structure of the MADT.
pub(super) fn local_apic(id: u8, flags: u32) -> Vec<u8> {
    bytes![0_u8, 8_u8, id, id, flags]
}

pub(super) fn local_x2apic(id: u32, flags: u32) -> Vec<u8> {
    bytes![9_u8, 16_u8, 0_u16, id, flags, id]
}

pub(super) fn io_apic(id: u8, address: u32, gsi_base: u32) -> Vec<u8> {
    bytes![1_u8, 12_u8, id, 0_u8, address, gsi_base]
}

/// Interrupt Source Override structure of the MADT.
pub(super) fn source_override(source: u8, gsi: u32, flags: u16) -> Vec<u8> {
    bytes![2_u8, 10_u8, 0_u8, source, gsi, flags]
}

/// A MADT with interrupt controller structures.
pub(super) fn madt(records: &[Vec<u8>]) -> Vec<u8> {
    table(b"APIC", &[bytes![0xfee0_0000_u32, 1_u32], records.concat()].concat())
}

/// The MADT of QEMU's PC with `cpus` processors.
pub(super) fn qemu_madt(cpus: u8) -> Vec<u8> {
    let mut records: Vec<_> = (0..cpus).map(|id| local_apic(id, 1)).collect();
    records.push(io_apic(0, 0xfec0_0000, 0));
    records.push(source_override(0, 2, 0));
    records.extend([5, 9, 10, 11].map(|irq| source_override(irq, u32::from(irq), 0xd)));
    // Local APIC NMI of all processors.
    records.push(bytes![4_u8, 6_u8, 0xff_u8, 0_u16, 1_u8]);
    madt(&records)
}

/// The HPET description table, with registers in an address space.
pub(super) fn hpet(space: u8, address: u64) -> Vec<u8> {
    let identifier = 0x8086_a201_u32;
    table(b"HPET", &bytes![identifier, space, 0_u8, 0_u8, 0_u8, address, 0_u8, 0_u16, 0_u8])
}

/// The body of the FADT of QEMU's Q35, version 3.
pub(super) fn fadt_body() -> Vec<u8> {
    let mut body = vec![0; 244 - 36];
    let mut put = |offset: usize, bytes: &[u8]| body[offset - 36..][..bytes.len()].copy_from_slice(bytes);
    put(46, &9_u16.to_le_bytes());
    put(48, &0xb2_u32.to_le_bytes());
    put(52, &[0xf1]);
    put(56, &0x600_u32.to_le_bytes());
    put(64, &0x604_u32.to_le_bytes());
    put(88, &[4]);
    put(112, &0x8_4a5_u32.to_le_bytes());
    put(116, &bytes![1_u8, 8_u8, 0_u8, 0_u8, 0xcf9_u64]);
    put(128, &[0xf]);
    put(172, &bytes![1_u8, 16_u8, 0_u8, 0_u8, 0x604_u64]);
    body
}

/// The tables of QEMU's PC with `SeaBIOS`: an RSDP of ACPI 1.0 below 1 MiB, the tables at the end of memory.
pub(super) fn acpi(cpus: u8) -> TestMemory {
    let mut memory = TestMemory::new();
    let tables =
        [table(b"FACP", &fadt_body()), qemu_madt(cpus), hpet(0, 0xfed0_0000), table(b"WAET", &[0; 4])];
    let addresses = tables.map(|table| memory.add(&table));
    let rsdt = memory.add(&rsdt(&addresses));
    memory.write(POINTER, &pointer(rsdt, None));
    memory
}

/// The same tables with an RSDP of ACPI 2.0 outside of the search areas; returns its address with the memory.
pub(super) fn acpi_2(cpus: u8) -> (TestMemory, u64) {
    let mut memory = TestMemory::new();
    let addresses = [table(b"FACP", &fadt_body()), hpet(0, 0xfed0_0000), qemu_madt(cpus)];
    let addresses = addresses.map(|table| memory.add(&table));
    let xsdt = memory.add(&table(b"XSDT", &addresses.map(u64::to_le_bytes).concat()));
    let rsdp = memory.add(&pointer(0, Some(xsdt)));
    (memory, rsdp)
}

/// An MP floating pointer structure for a configuration table.
pub(super) fn floating_pointer(table: u32) -> Vec<u8> {
    with_checksum([b"_MP_".to_vec(), bytes![table, 1_u8, 4_u8, 0_u8, 0_u32, 0_u8]].concat(), 10)
}

/// An MP configuration table with these entries.
pub(super) fn configuration(entries: &[Vec<u8>]) -> Vec<u8> {
    let all = entries.concat();
    let length: u16 = 44 + u16::try_from(all.len()).unwrap();
    let mut table = [b"PCMP".to_vec(), bytes![length, 4_u8, 0_u8]].concat();
    table.extend(b"BOCHSCPU0.1         ");
    table.extend(bytes![0_u32, 0_u16, u16::try_from(entries.len()).unwrap(), 0xfee0_0000_u32, 0_u32]);
    table.extend(all);
    with_checksum(table, 7)
}

/// A processor of a configuration table.
pub(super) fn processor(id: u8, flags: u8) -> Vec<u8> {
    bytes![0_u8, id, 0x14_u8, flags, 0x600_u32, 0x781_abfd_u32, 0_u64]
}

/// The configuration table of QEMU's PC, with the floating pointer at `place`.
pub(super) fn multiprocessor(cpus: u8, place: u64) -> TestMemory {
    let mut memory = TestMemory::new();
    let mut entries: Vec<_> = (0..cpus).map(|id| processor(id, if id == 0 { 3 } else { 1 })).collect();
    entries.push([vec![1, 0], b"PCI   ".to_vec()].concat());
    entries.push([vec![1, 1], b"ISA   ".to_vec()].concat());
    entries.push(bytes![2_u8, 0_u8, 0x11_u8, 1_u8, 0xfec0_0000_u32]);
    entries.push(vec![3, 0, 1, 0, 0, 4, 0, 11]);
    let line = |isa: u8| vec![3, 0, 0, 0, 1, isa, 0, if isa == 0 { 2 } else { isa }];
    entries.extend((0..16).filter(|isa| *isa != 2).map(line));
    entries.push(vec![4, 1, 0, 0, 1, 0, 0xff, 1]);
    memory.write(0xf_5310, &configuration(&entries));
    memory.write(place, &floating_pointer(0xf_5310));
    memory
}
