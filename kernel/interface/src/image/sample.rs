//! A small valid image for tests, whose parts can be changed one by one.

use alloc::vec;
use alloc::vec::Vec;

use elf::abi;
use zerocopy::{Immutable, IntoBytes};

use super::relocations::{DT_RELR, DT_RELRENT, DT_RELRSZ};
use crate::note::AbiNote;

/// `Elf64_Ehdr`.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
#[expect(missing_docs, reason = "the names of the ELF specification")]
pub struct FileHeader {
    pub ident: [u8; 16],
    pub kind: u16,
    pub machine: u16,
    pub version: u32,
    pub entry: u64,
    pub phoff: u64,
    pub shoff: u64,
    pub flags: u32,
    pub ehsize: u16,
    pub phentsize: u16,
    pub phnum: u16,
    pub shentsize: u16,
    pub shnum: u16,
    pub shstrndx: u16,
}

/// `Elf64_Phdr`.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
#[expect(missing_docs, reason = "the names of the ELF specification")]
pub struct ProgramHeader {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub vaddr: u64,
    pub paddr: u64,
    pub filesz: u64,
    pub memsz: u64,
    pub align: u64,
}

/// `Elf64_Shdr`.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
#[expect(missing_docs, reason = "the names of the ELF specification")]
pub struct SectionHeader {
    pub name: u32,
    pub kind: u32,
    pub flags: u64,
    pub addr: u64,
    pub offset: u64,
    pub size: u64,
    pub link: u32,
    pub info: u32,
    pub addralign: u64,
    pub entsize: u64,
}

/// The parts of an image. The default is valid. It has a page with headers, note and relocations, a page of
/// code, data, and two symbols. Only a part of the data is in the file, and its first page is read-only after
/// relocation.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The file header.
    pub header: FileHeader,
    /// The program headers, in this order: three segments, note, dynamic section, thread-local template,
    /// relro.
    pub segments: [ProgramHeader; 7],
    /// The relocations: `r_offset`, `r_info`, `r_addend`.
    pub relocations: Vec<[u64; 3]>,
    /// The entries of the packed relocation table.
    pub packed: Vec<u64>,
    /// Words of the data that the packed table relocates: offset and addend.
    pub addends: Vec<[u64; 2]>,
    /// The note's bytes.
    pub note: Vec<u8>,
    /// The dynamic section: tags and values.
    pub dynamic: Vec<[u64; 2]>,
    /// The section headers, in this order: null, symbol table, string table.
    pub sections: [SectionHeader; 3],
}

/// Index of the note in [`Sample::segments`].
pub const NOTE: usize = 3;
/// Index of the thread-local template in [`Sample::segments`].
pub const TLS: usize = 5;

const NOTE_OFFSET: u64 = 0x400;
const RELOCATIONS_OFFSET: u64 = 0x800;
const PACKED_OFFSET: u64 = 0xc00;
const DYNAMIC_OFFSET: u64 = 0x2000;
/// End of the segments in the file.
const SEGMENTS_END: usize = 0x3800;
/// Sizes in bytes of the symbol table and of the string table after it.
const SYMBOLS_SIZE: (usize, usize) = (48, 16);
/// Size of the file without section headers.
const FILE_SIZE: usize = SEGMENTS_END + SYMBOLS_SIZE.0 + SYMBOLS_SIZE.1;

impl Default for Sample {
    fn default() -> Self {
        let segment = |kind, flags, start, filesz, memsz| ProgramHeader {
            kind,
            flags,
            offset: start,
            vaddr: start,
            paddr: start,
            filesz,
            memsz,
            align: if kind == abi::PT_LOAD { 0x1000 } else { 8 },
        };
        let read_write = abi::PF_R | abi::PF_W;
        let note = AbiNote::CURRENT.as_bytes().to_vec();
        let note_size = note.len() as u64;
        Self {
            header: FileHeader {
                ident: *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0",
                kind: abi::ET_DYN,
                machine: abi::EM_X86_64,
                version: 1,
                entry: 0x1010,
                phoff: 64,
                shoff: FILE_SIZE as u64,
                flags: 0,
                ehsize: 64,
                phentsize: 56,
                phnum: 7,
                shentsize: 64,
                shnum: 3,
                shstrndx: 0,
            },
            segments: [
                segment(abi::PT_LOAD, abi::PF_R, 0, 0x1000, 0x1000),
                segment(abi::PT_LOAD, abi::PF_R | abi::PF_X, 0x1000, 0x800, 0x800),
                segment(abi::PT_LOAD, read_write, 0x2000, 0x1800, 0x3123),
                ProgramHeader {
                    align: 4,
                    ..segment(abi::PT_NOTE, abi::PF_R, NOTE_OFFSET, note_size, note_size)
                },
                segment(abi::PT_DYNAMIC, read_write, DYNAMIC_OFFSET, 0x100, 0x100),
                segment(abi::PT_TLS, abi::PF_R, 0x2200, 0x10, 0x30),
                segment(abi::PT_GNU_RELRO, abi::PF_R, 0x2000, 0x1000, 0x1000),
            ],
            relocations: vec![[0x2300, 8, 0x1010], [0x3008, 8, 0x2000]],
            // A word, the third one after it, and the last word of the data.
            packed: vec![0x2400, 0b1001, 0x37f8],
            addends: vec![[0x2400, 0x1011], [0x2418, 0x2001], [0x37f8, 0x3001]],
            note,
            dynamic: vec![
                [abi::DT_RELA.cast_unsigned(), RELOCATIONS_OFFSET],
                [abi::DT_RELASZ.cast_unsigned(), 48],
                [abi::DT_RELAENT.cast_unsigned(), 24],
                [DT_RELR.cast_unsigned(), PACKED_OFFSET],
                [DT_RELRSZ.cast_unsigned(), 24],
                [DT_RELRENT.cast_unsigned(), 8],
                [0, 0],
            ],
            sections: symbol_sections(),
        }
    }
}

fn symbol_sections() -> [SectionHeader; 3] {
    let table = SectionHeader {
        kind: abi::SHT_SYMTAB,
        offset: SEGMENTS_END as u64,
        size: SYMBOLS_SIZE.0 as u64,
        link: 2,
        entsize: 24,
        ..SectionHeader::default()
    };
    let strings = SectionHeader {
        kind: abi::SHT_STRTAB,
        offset: table.offset + table.size,
        size: SYMBOLS_SIZE.1 as u64,
        ..SectionHeader::default()
    };
    [SectionHeader::default(), table, strings]
}

impl Sample {
    /// Builds the file. Unused bytes are filled with the page number of their offset plus one.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut file = [[1_u8; 0x1000], [2; 0x1000], [3; 0x1000], [4; 0x1000]].concat();
        file.truncate(FILE_SIZE);
        let mut put = |offset: u64, bytes: &[u8]| {
            let offset = usize::try_from(offset).expect("small");
            file[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        put(0, self.header.as_bytes());
        put(64, self.segments.as_bytes());
        put(NOTE_OFFSET, &self.note);
        put(RELOCATIONS_OFFSET, self.relocations.as_bytes());
        put(PACKED_OFFSET, self.packed.as_bytes());
        self.addends.iter().for_each(|[offset, addend]| put(*offset, addend.as_bytes()));
        put(DYNAMIC_OFFSET, self.dynamic.as_bytes());
        file.extend_from_slice(self.sections.as_bytes());
        file
    }
}
