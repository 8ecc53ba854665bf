//! Reading physical memory by copy: structures, tables with a length and a checksum, searches.

use core::iter;
use core::ops::Range;

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

use crate::PhysicalMemory;

/// The longest table that is looked at, in bytes. Real ones of the kinds that matter here have a few hundred.
const MAX_TABLE: u32 = 64 << 10;

/// Where the BIOS keeps the segment of its extended data area.
const EXTENDED_DATA_SEGMENT: u64 = 0x40e;

/// Copies a structure out of memory; `None` if a part is not readable or address 0 is meant, which is no table's.
pub(crate) fn read<T: FromBytes + IntoBytes>(memory: &dyn PhysicalMemory, address: u64) -> Option<T> {
    let mut value = T::new_zeroed();
    let bytes = value.as_mut_bytes();
    address.checked_add(u64::try_from(bytes.len()).ok()?)?;
    (address != 0 && memory.read(address, bytes)).then_some(value)
}

/// A table in memory.
#[derive(Clone, Copy)]
pub(crate) struct Table<'memory> {
    memory: &'memory dyn PhysicalMemory,
    address: u64,
    length: u32,
}

impl<'memory> Table<'memory> {
    /// The table of `length` bytes at `address`; `None` if it is too long to be real, not all readable, or its bytes do
    /// not add up to zero.
    pub(crate) fn open(memory: &'memory dyn PhysicalMemory, address: u64, length: u32) -> Option<Self> {
        if length == 0 || length > MAX_TABLE {
            return None;
        }
        address.checked_add(u64::from(length))?;
        let table = Self { memory, address, length };
        (table.sum()? == 0).then_some(table)
    }

    /// A part of the table; `None` if it is not all inside the table.
    pub(crate) fn part(self, offset: u32, length: u32) -> Option<Self> {
        let inside = offset.checked_add(length)? <= self.length;
        // Does not overflow: the whole table was found to lie below the end of the addresses.
        inside.then(|| Self { address: self.address + u64::from(offset), length, ..self })
    }

    /// The structure at `offset`; `None` if it is not all inside the table.
    pub(crate) fn get<T: FromBytes + IntoBytes>(&self, offset: u32) -> Option<T> {
        let part = self.part(offset, u32::try_from(size_of::<T>()).ok()?)?;
        read(part.memory, part.address)
    }

    /// All whole structures of one kind from `offset` to the table's end, at most `limit`.
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

    /// All bytes added up.
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

/// The addresses in `range` at which `signature` stands; only multiples of 16 count.
pub(crate) fn search<const N: usize>(
    memory: &dyn PhysicalMemory,
    range: Range<u64>,
    signature: [u8; N],
) -> impl Iterator<Item = u64> {
    let first = range.start.next_multiple_of(16);
    let places = (first..range.end).step_by(16);
    places.filter(move |&place| read::<[u8; N]>(memory, place) == Some(signature))
}

/// The first KiB of the BIOS's extended data area; empty if there is none.
pub(crate) fn extended_data(memory: &dyn PhysicalMemory) -> Range<u64> {
    let segment = read(memory, EXTENDED_DATA_SEGMENT).map_or(0, U16::get);
    let start = u64::from(segment) << 4;
    if segment == 0 { 0..0 } else { start..start + 1024 }
}
