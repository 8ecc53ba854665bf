//! Finds the parts of an image's file that [`super::check`], [`super::Image`] and [`crate::boot_image`] need.
//! So a reader can leave out the rest of the file, which is mostly debugging information.
//!
//! The headers say where the other parts are, so a file is read in four steps: the first [`HEADER_SIZE`]
//! bytes, the [`tables`] of headers, the [`contents`] and the [`code`]. The caller passes the file to each
//! function with zeros in the parts that it has not read yet.

use elf::ElfBytes;
use elf::abi;
use elf::endian::LittleEndian;

use crate::boot_info::Region;

/// Size of the ELF header in bytes (`Elf64_Ehdr`).
pub const HEADER_SIZE: usize = 64;

/// The tables of program and section headers of a file whose ELF header was read; `None` if it is no 64-bit
/// ELF file with valid headers, as many as an image may have.
#[must_use]
pub fn tables(file: &[u8]) -> Option<[Region; 2]> {
    let header = parse(file)?.ehdr;
    let table = |start, count: u16, size: u16| Region { start, size: u64::from(count) * u64::from(size) };
    Some([
        table(header.e_phoff, header.e_phnum, header.e_phentsize),
        table(header.e_shoff, header.e_shnum, header.e_shentsize),
    ])
}

/// Returns the contents of segments, symbol tables and string tables, except those that [`code`] returns. The
/// header and the tables of the file must have been read. The parts may overlap, and may extend beyond the
/// end of the file.
pub fn contents(file: &[u8]) -> impl Iterator<Item = Region> {
    let sections = parse(file).and_then(|file| file.section_headers()).into_iter().flatten();
    let has_symbols = |kind: u32| matches!(kind, abi::SHT_SYMTAB | abi::SHT_STRTAB);
    let symbols = sections.filter(move |section| has_symbols(section.sh_type));
    segments(file, false)
        .chain(symbols.map(|section| Region { start: section.sh_offset, size: section.sh_size }))
}

/// Returns the contents of the executable segments. The header and the tables of the file must have been
/// read. [`super::check`] does not look at them, so the caller may check a file with zeros in their place.
/// But if the linker has put relocation tables there, [`super::check`] refuses such a file.
pub fn code(file: &[u8]) -> impl Iterator<Item = Region> {
    segments(file, true)
}

/// Returns the contents of the segments that are loaded as code, or of all other segments.
fn segments(file: &[u8], code: bool) -> impl Iterator<Item = Region> {
    let segments = parse(file).as_ref().and_then(ElfBytes::segments).into_iter().flatten();
    let is_code = |kind, flags| kind == abi::PT_LOAD && flags & abi::PF_X != 0;
    let segments = segments.filter(move |segment| is_code(segment.p_type, segment.p_flags) == code);
    segments.map(|segment| Region { start: segment.p_offset, size: segment.p_filesz })
}

fn parse(file: &[u8]) -> Option<ElfBytes<'_, LittleEndian>> {
    let is_64_bit = file.get(4) == Some(&abi::ELFCLASS64);
    if is_64_bit && super::has_bounded_tables(file) { ElfBytes::minimal_parse(file).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::super::check;
    use super::super::sample::Sample;
    use super::super::tests::relocations;
    use super::{HEADER_SIZE, code, contents, tables};
    use crate::boot_info::Region;
    use crate::to_usize;

    /// Copies parts of a file.
    fn copy(file: &[u8], parts: impl IntoIterator<Item = Region>, copy: &mut [u8]) {
        for part in parts {
            let range = to_usize(part.start)..to_usize(part.end()).min(file.len());
            copy[range.clone()].copy_from_slice(&file[range]);
        }
    }

    #[test]
    fn file_of_parts_alone_is_the_same_image() {
        let mut file = Sample::default().build();
        let unused = file.len();
        file.resize(unused + 0x1000, 0xaa);
        let mut read = vec![0; file.len()];
        copy(&file, [Region { start: 0, size: HEADER_SIZE as u64 }], &mut read);
        let tables = tables(&read).unwrap();
        copy(&file, tables, &mut read);
        let [contents, code]: [Vec<_>; 2] = [contents(&read).collect(), code(&read).collect()];
        copy(&file, contents, &mut read);
        assert_eq!(
            check(&read).map(|image| relocations(&image)),
            check(&file).map(|image| relocations(&image))
        );
        assert!(read[to_usize(code[0].start)..][..to_usize(code[0].size)].iter().all(|byte| *byte == 0));
        copy(&file, code, &mut read);
        let [all, parts] = [&file, &read].map(|file| check(file).unwrap());
        assert_eq!(parts.segments().collect::<Vec<_>>(), all.segments().collect::<Vec<_>>());
        assert_eq!(relocations(&parts), relocations(&all));
        assert!(parts.symbols().is_some() && parts.symbols() == all.symbols());
        assert!(read[unused..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn other_files_have_no_tables() {
        let mut file = Sample::default().build();
        assert!(tables(&file).is_some() && tables(&file[..HEADER_SIZE]).is_none());
        file[4] = elf::abi::ELFCLASS32;
        for file in [&file[..], b"", b"#!/bin/sh\n"] {
            assert!(tables(file).is_none());
            assert_eq!(contents(file).chain(code(file)).count(), 0);
        }
    }
}
