//! Reading firmware structures by copy: structures, tables with length and checksum, searches for signatures.

use core::iter;
use core::ops::Range;

use hermit_interface::to_usize;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

use crate::PhysicalMemory;

/// Maximum size of a table in bytes. Real tables of the types that this crate reads have a few hundred bytes.
const MAX_TABLE: u32 = 64 << 10;

/// Address of the BIOS data area's segment of the extended BIOS data area (EBDA).
const EBDA_SEGMENT: u64 = 0x40e;

/// Copies a structure from memory. Returns `None` if a part is not readable, or if the address is 0, which
/// means that there is no table.
pub(crate) fn read<T: FromBytes + IntoBytes>(memory: &dyn PhysicalMemory, address: u64) -> Option<T> {
    let mut value = T::new_zeroed();
    read_bytes(memory, address, value.as_mut_bytes()).then_some(value)
}

/// Does the same as [`read`] for the bytes of a structure. Returns false instead of `None`.
fn read_bytes(memory: &dyn PhysicalMemory, address: u64, bytes: &mut [u8]) -> bool {
    address != 0 && address.checked_add(bytes.len() as u64).is_some() && memory.read(address, bytes)
}

/// A table in memory.
#[derive(Clone, Copy)]
pub(crate) struct FirmwareTable<'memory> {
    memory: &'memory dyn PhysicalMemory,
    address: u64,
    length: u32,
}

impl<'memory> FirmwareTable<'memory> {
    /// Opens the table of `length` bytes at `address`; `None` if it is too long, not readable, or its
    /// checksum is wrong.
    pub(crate) fn open(memory: &'memory dyn PhysicalMemory, address: u64, length: u32) -> Option<Self> {
        if length == 0 || length > MAX_TABLE {
            return None;
        }
        address.checked_add(u64::from(length))?;
        let table = Self { memory, address, length };
        (table.sum()? == 0).then_some(table)
    }

    /// A part of the table; `None` if it exceeds the table.
    pub(crate) fn part(self, offset: u32, length: u32) -> Option<Self> {
        let inside = offset.checked_add(length)? <= self.length;
        // Does not overflow: `open` has checked the end of the table.
        inside.then(|| Self { address: self.address + u64::from(offset), length, ..self })
    }

    /// The structure at `offset`; `None` if it exceeds the table.
    pub(crate) fn get<T: FromBytes + IntoBytes>(&self, offset: u32) -> Option<T> {
        let mut value = T::new_zeroed();
        self.copy(offset, value.as_mut_bytes()).then_some(value)
    }

    /// Copies bytes that begin at `offset`. Returns false if they exceed the table.
    #[inline(never)] // Keeps it in the image once.
    fn copy(&self, offset: u32, bytes: &mut [u8]) -> bool {
        let part = u32::try_from(bytes.len()).ok().and_then(|length| self.part(offset, length));
        part.is_some_and(|part| read_bytes(part.memory, part.address, bytes))
    }

    /// The array of structures from `offset` to the table's end, at most `limit` elements.
    pub(crate) fn array<T: FromBytes + IntoBytes>(
        self,
        offset: u32,
        limit: usize,
    ) -> impl Iterator<Item = T> + use<'memory, T> {
        let mut offset = offset;
        iter::from_fn(move || {
            let item = self.get(offset)?;
            offset = offset.checked_add(u32::try_from(size_of::<T>()).ok()?)?;
            Some(item)
        })
        .take(limit)
    }

    /// Sum of all bytes modulo 256.
    fn sum(&self) -> Option<u8> {
        let mut chunk = [0; 64];
        let mut sum = 0_u8;
        let mut done = 0;
        while done < self.length {
            let size = usize::try_from(self.length - done).ok()?.min(chunk.len());
            let bytes = chunk.get_mut(..size)?;
            if !self.memory.read(self.address + u64::from(done), bytes) {
                return None;
            }
            sum = bytes.iter().fold(sum, |sum, byte| sum.wrapping_add(*byte));
            done += u32::try_from(size).ok()?;
        }
        Some(sum)
    }
}

/// Number of bytes that the search reads at a time. Larger reads are faster, since each read has to find the
/// mapping of the memory.
const SEARCHED_SIZE: usize = 256;

/// Addresses in `areas` at which `signature` is found. They are multiples of 16. `signature` has at most 16
/// bytes.
pub(crate) fn search<const AREAS: usize>(
    memory: &dyn PhysicalMemory,
    areas: [Range<u64>; AREAS],
    signature: &'static [u8],
) -> impl Iterator<Item = u64> {
    let (mut areas, mut area) = (areas.into_iter(), 0..0);
    iter::from_fn(move || {
        loop {
            if let Some(found) = first_match(memory, area.clone(), signature) {
                area.start = found + 16;
                return Some(found);
            }
            area = areas.next()?;
        }
    })
}

/// First address in `range` at which `signature` is found. It is a multiple of 16.
#[inline(never)] // Keeps it in the image once.
fn first_match(memory: &dyn PhysicalMemory, range: Range<u64>, signature: &[u8]) -> Option<u64> {
    let mut start = range.start.next_multiple_of(16);
    while start < range.end {
        let mut bytes = [0; SEARCHED_SIZE];
        let size = to_usize(range.end - start).min(SEARCHED_SIZE);
        if memory.read(start, &mut bytes[..size]) {
            let pieces = bytes[..size].chunks(16);
            if let Some(piece) = (0..).zip(pieces).find(|(_, bytes)| bytes.starts_with(signature)) {
                return Some(start + 16 * piece.0);
            }
        }
        start += SEARCHED_SIZE as u64;
    }
    None
}

/// The first KiB of the extended BIOS data area; empty if there is none.
pub(crate) fn extended_bios_data(memory: &dyn PhysicalMemory) -> Range<u64> {
    let segment = read(memory, EBDA_SEGMENT).map_or(0, U16::get);
    let start = u64::from(segment) << 4;
    if segment == 0 { 0..0 } else { start..start + 1024 }
}
