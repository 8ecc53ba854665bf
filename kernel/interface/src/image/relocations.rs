//! The relative relocations of an image: a table with addends (`DT_RELA`), and a packed one (`DT_RELR`),
//! whose addends are the relocated words in the file.
//!
//! The packed table consists of words (ELF gABI, "Relative Relocation Table"). An even word is the offset of
//! a relocated word. An odd word is a bitmap of the 63 words that follow the words of the previous entry. Bit
//! 1 stands for the first of the 63 words.

use core::iter::{self, Peekable};

use elf::ElfBytes;
use elf::abi;
use elf::endian::LittleEndian;

use super::{Image, ImageError, Segment, word};
use crate::to_usize;

/// Size of a relocation entry with an addend (`Elf64_Rela`) in bytes.
pub(super) const RELA_SIZE: usize = 24;

/// Size of an entry of the packed table (`Elf64_Relr`), and of a relocated word, in bytes.
const WORD_SIZE: usize = 8;

/// Number of words that a bitmap stands for.
const BITMAP_WORDS: u64 = 63;

/// Tag of the packed table's size in bytes; the `elf` crate does not know these tags.
pub(super) const DT_RELRSZ: i64 = 35;

/// Tag of the packed table's address.
pub(super) const DT_RELR: i64 = 36;

/// Tag of the size of a packed table's entry in bytes.
pub(super) const DT_RELRENT: i64 = 37;

/// The relocation tables, as bytes of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Relocations<'a> {
    /// Entries of [`RELA_SIZE`] bytes.
    with_addends: &'a [u8],
    /// Entries of [`WORD_SIZE`] bytes.
    packed: &'a [u8],
}

impl<'a> Relocations<'a> {
    /// Finds the tables that the dynamic section names, and checks their entries.
    pub(super) fn check(image: &Image<'a>, file: &ElfBytes<'a, LittleEndian>) -> Result<Self, ImageError> {
        let tables = Self::find(image, file)?;
        check_with_addends(image, tables.with_addends)?;
        check_packed(image, tables.packed)?;
        Ok(tables)
    }

    fn find(image: &Image<'a>, file: &ElfBytes<'a, LittleEndian>) -> Result<Self, ImageError> {
        let Some(header) = image.header(abi::PT_DYNAMIC) else { return Ok(Self::default()) };
        let bytes = file.segment_data(&header).map_err(|_| ImageError::Truncated("dynamic section"))?;
        let (mut with_addends, mut packed) = (Table::default(), Table::default());
        for entry in bytes.chunks_exact(16) {
            let value = word(entry, 8);
            match word(entry, 0).cast_signed() {
                abi::DT_NULL => break,
                abi::DT_RELA => with_addends.start = value,
                abi::DT_RELASZ => with_addends.size = value,
                DT_RELR => packed.start = value,
                DT_RELRSZ => packed.size = value,
                abi::DT_RELAENT if value != RELA_SIZE as u64 => {
                    return Err(ImageError::Relocation("entry size"));
                }
                DT_RELRENT if value != WORD_SIZE as u64 => {
                    return Err(ImageError::Relocation("entry size"));
                }
                abi::DT_NEEDED => return Err(ImageError::Relocation("against a shared library")),
                abi::DT_JMPREL | abi::DT_REL => return Err(ImageError::Relocation("table of another kind")),
                _ => {}
            }
        }
        let missing = ImageError::Truncated("relocations");
        Ok(Self {
            with_addends: with_addends.bytes(image, RELA_SIZE).ok_or(missing)?,
            packed: packed.bytes(image, WORD_SIZE).ok_or(missing)?,
        })
    }

    /// Calls a function for each relocation, with the offset of the relocated word and the addend.
    /// Relocations of the packed table come first.
    pub(super) fn for_each(self, image: &Image<'a>, mut relocate: impl FnMut(u64, u64)) {
        let mut data = Data::new(image.segments());
        for group in groups(self.packed) {
            if let Some(contents) = data.contents(group) {
                group
                    .offsets()
                    .for_each(|offset| relocate(offset, word(contents, to_usize(offset - group.start))));
                continue;
            }
            // The words of the group are in two segments, so each word is looked up by itself.
            for offset in group.offsets() {
                relocate(offset, data.contents(Group::of(offset)).map_or(0, |contents| word(contents, 0)));
            }
        }
        for entry in self.with_addends.chunks_exact(RELA_SIZE) {
            relocate(word(entry, 0), word(entry, 16));
        }
    }
}

/// Location of a table according to the dynamic section.
#[derive(Clone, Copy, Debug, Default)]
struct Table {
    /// Offset from the image's start.
    start: u64,
    /// Size in bytes.
    size: u64,
}

impl Table {
    /// Returns the table's bytes. They must be initial contents of a single segment, and a whole number of
    /// entries.
    fn bytes<'a>(self, image: &Image<'a>, entry_size: usize) -> Option<&'a [u8]> {
        let size = usize::try_from(self.size).ok().filter(|size| size.is_multiple_of(entry_size))?;
        if size == 0 {
            return Some(&[]);
        }
        image.segments().find_map(|segment| contents(&segment, self.start, size))
    }
}

fn check_with_addends(image: &Image<'_>, table: &[u8]) -> Result<(), ImageError> {
    for entry in table.chunks_exact(RELA_SIZE) {
        if word(entry, 8) != u64::from(abi::R_X86_64_RELATIVE) {
            return Err(ImageError::Relocation("against a symbol"));
        }
        if word(entry, 0).checked_add(WORD_SIZE as u64).is_none_or(|end| end > image.size) {
            return Err(ImageError::Relocation("outside the image"));
        }
    }
    Ok(())
}

fn check_packed(image: &Image<'_>, table: &[u8]) -> Result<(), ImageError> {
    if table.get(..WORD_SIZE).is_some_and(|first| word(first, 0) & 1 != 0) {
        return Err(ImageError::Relocation("bitmap without an address"));
    }
    let (mut data, mut free) = (Data::new(image.segments()), 0);
    for group in groups(table) {
        let is_inside = data.contents(group).is_some()
            || group.offsets().all(|offset| data.contents(Group::of(offset)).is_some());
        if !is_inside {
            return Err(ImageError::Relocation("outside the writable data"));
        }
        // Linkers sort the entries. Requiring this bounds the time for a table by the number of words in the
        // image, however long the table is.
        if group.start < free {
            return Err(ImageError::Relocation("out of order"));
        }
        free = group.last() + 1;
    }
    Ok(())
}

/// The relocated words that an entry of a packed table stands for: at least one.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Offset of the first word from the image's start.
    start: u64,
    /// A bit for each word. Bit 0 stands for the first word.
    bitmap: u64,
}

impl Group {
    /// The word at an offset from the image's start.
    fn of(offset: u64) -> Self {
        Self { start: offset, bitmap: 1 }
    }

    /// Offsets of the words from the image's start, in ascending order.
    fn offsets(self) -> impl Iterator<Item = u64> {
        let mut rest = self.bitmap;
        iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(self.start + u64::from(bit) * WORD_SIZE as u64)
        })
    }

    /// Offset of the last word.
    fn last(self) -> u64 {
        self.start + u64::from(self.bitmap.ilog2()) * WORD_SIZE as u64
    }
}

/// Iterates over the groups of words that the entries of a packed table stand for. A bitmap may be empty.
fn groups(table: &[u8]) -> impl Iterator<Item = Group> {
    let mut next = 0_u64;
    table.chunks_exact(WORD_SIZE).filter_map(move |entry| {
        let entry = word(entry, 0);
        if entry & 1 == 0 {
            // This overflows only if the word is outside of any image.
            next = entry.wrapping_add(WORD_SIZE as u64);
            return Some(Group::of(entry));
        }
        let (start, bitmap) = (next, entry >> 1);
        next += BITMAP_WORDS * WORD_SIZE as u64;
        let first = (bitmap != 0).then(|| bitmap.trailing_zeros())?;
        Some(Group { start: start + u64::from(first) * WORD_SIZE as u64, bitmap: bitmap >> first })
    })
}

/// Cursor over the initial contents of the writable segments, including RELRO data. It only moves forward,
/// because both the groups of a packed table and the segments are in ascending order. So a pass over a table
/// takes only as many steps as there are segments and groups.
struct Data<I: Iterator> {
    segments: Peekable<I>,
}

impl<'a, I: Iterator<Item = Segment<'a>>> Data<I> {
    /// Creates a cursor at the first of `segments`, which are in ascending order.
    fn new(segments: I) -> Self {
        Self { segments: segments.peekable() }
    }

    /// Returns the bytes from the first word of a group to the end of its last word. Returns `None` if they
    /// are not all initial contents of one writable segment, or if the cursor has already passed them.
    fn contents(&mut self, group: Group) -> Option<&'a [u8]> {
        let size = (group.bitmap.ilog2() as usize + 1) * WORD_SIZE;
        let ends_before = |segment: &Segment<'_>| segment.start + segment.data.len() as u64 <= group.start;
        while self.segments.next_if(|segment| !segment.write || ends_before(segment)).is_some() {}
        contents(self.segments.peek()?, group.start, size)
    }
}

/// Bytes of a segment's initial contents, by their offset from the image's start.
fn contents<'a>(segment: &Segment<'a>, start: u64, size: usize) -> Option<&'a [u8]> {
    let offset = usize::try_from(start.checked_sub(segment.start)?).ok()?;
    segment.data.get(offset..offset.checked_add(size)?)
}

#[cfg(test)]
mod tests {
    use super::{Data, Group, Segment, WORD_SIZE};
    use crate::address::PAGE_SIZE;
    use crate::to_usize;

    /// Number of segments of a page each.
    const SEGMENTS: u64 = 60;

    /// Each border between two segments is in the middle of a group, so that the group's words are looked up
    /// one by one.
    #[test]
    fn pass_over_relocations_takes_each_segment_once() {
        let page = [0; to_usize(PAGE_SIZE)];
        let segment = |number| Segment {
            start: number * PAGE_SIZE,
            size: PAGE_SIZE,
            data: &page,
            offset: 0,
            write: true,
            execute: false,
        };
        let mut taken = 0;
        let mut data = Data::new((0..SEGMENTS).map(segment).inspect(|_| taken += 1));
        for border in 1..SEGMENTS {
            let group = Group { start: border * PAGE_SIZE - WORD_SIZE as u64, bitmap: 0b11 };
            assert!(data.contents(group).is_none(), "no segment has both words");
            assert!(group.offsets().all(|offset| data.contents(Group::of(offset)).is_some()));
        }
        assert!(data.contents(Group::of(0)).is_none(), "the cursor has passed it");
        assert_eq!(taken, SEGMENTS);
    }
}
