//! The format of bootable images, and the check before an image is booted.
//!
//! An image is a statically linked, position-independent ELF64 file (`ET_DYN`) for x86-64 with the note of
//! [`crate::note`], without segments that are both writable and executable, and with relative relocations
//! only (`R_X86_64_RELATIVE`, `DT_RELR`). The file is untrusted: [`check`] validates every offset and size,
//! and an image that passes is loaded without further checks.

pub mod parts;
mod relocations;
#[cfg(any(feature = "sample", test))]
pub mod sample;

use elf::ElfBytes;
use elf::abi;
use elf::endian::LittleEndian;
use elf::note::Note;
use elf::section::SectionHeader;
use elf::segment::ProgramHeader;

use crate::address::PAGE_SIZE;
use crate::note::{ABI_VERSION, OWNER, TYPE_ABI};
use relocations::Relocations;

/// Maximum size of an image in memory, in bytes.
pub const MAX_SIZE: u64 = 1 << 30;

/// Size of a symbol table entry (`Elf64_Sym`) in bytes.
pub const SYMBOL_SIZE: usize = 24;

/// Maximum number of program headers. Linkers write about ten. The check makes a constant number of passes
/// over a part of the file for each header, so this limit also bounds the time of the check, whatever the
/// file contains.
pub const MAX_PROGRAM_HEADERS: u16 = 64;

/// Maximum size in bytes of a segment of notes. Compilers and linkers write some hundred bytes.
const MAX_NOTES: u64 = 64 << 10;

/// Why an image is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The file has no ELF header.
    #[error("not an ELF file")]
    NotElf,
    /// The ELF class or encoding is not 64-bit little-endian.
    #[error("not a 64-bit little-endian ELF file")]
    Class,
    /// The file is for another processor architecture (`e_machine`).
    #[error("built for another machine (ELF machine {0}, expected 62, x86-64)")]
    Machine(u16),
    /// The file is not position independent (`e_type`).
    #[error("not a position-independent executable (ELF type {0}, expected 3)")]
    Type(u16),
    /// The file has no Hermit note.
    #[error(
        "no executable for Hermit: the ABI note is missing; build it for x86_64-unknown-hermit, with the dependency \
         hermit-sys in Cargo.toml and `use hermit_sys as _;` in the program"
    )]
    NoNote,
    /// The image was built for another ABI version.
    #[error("built for ABI version {0}, expected {ABI_VERSION}: rebuild it with this version of hermit-sys")]
    Abi(u32),
    /// The file has more program headers than [`MAX_PROGRAM_HEADERS`], or says that their number is elsewhere
    /// (`PN_XNUM`).
    #[error("the file has {0} program headers, more than {MAX_PROGRAM_HEADERS}")]
    TooManyHeaders(u16),
    /// A part of the file to which its headers refer is missing.
    #[error("the file is truncated or its {0} damaged")]
    Truncated(&'static str),
    /// The addresses or sizes of a segment are invalid.
    #[error("a segment of the image is invalid: {0}")]
    Segment(&'static str),
    /// A relocation needs a dynamic linker.
    #[error("relocation {0} is not supported: the image must be linked statically")]
    Relocation(&'static str),
}

/// An image that has passed [`check`].
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    bytes: &'a [u8],
    /// Entry point, relative to the image's start.
    pub entry: u64,
    /// Size in memory in bytes, a multiple of the page size.
    pub size: u64,
    /// Alignment of the image's start: a power of two, at least the page size.
    pub align: u64,
    headers: ProgramHeaders<'a>,
    relocations: Relocations<'a>,
    sections: Option<Sections<'a>>,
}

type Sections<'a> = elf::section::SectionHeaderTable<'a, LittleEndian>;
type ProgramHeaders<'a> = elf::segment::SegmentTable<'a, LittleEndian>;

/// A loadable segment of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Start, relative to the image's start.
    pub start: u64,
    /// Size in memory in bytes; the part after `data` is zero.
    pub size: u64,
    /// Initial contents.
    pub data: &'a [u8],
    /// Offset of the contents in the file.
    pub offset: u64,
    /// The segment is writable.
    pub write: bool,
    /// The segment is executable.
    pub execute: bool,
}

/// The image's symbol table, as bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolTable<'a> {
    /// The symbol table: entries of [`SYMBOL_SIZE`] bytes (`Elf64_Sym`).
    pub table: &'a [u8],
    /// The string table of the symbol table.
    pub strings: &'a [u8],
}

/// The template of thread-local variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsTemplate {
    /// Start, relative to the image's start.
    pub start: u64,
    /// Size of the initial values in bytes.
    pub file_size: u64,
    /// Size of a thread's block in bytes.
    pub memory_size: u64,
    /// Alignment, a power of two.
    pub align: u64,
}

impl<'a> Image<'a> {
    /// The loadable segments in ascending order. No two share a page.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'a>> + use<'a> {
        let bytes = self.bytes;
        self.headers.iter().filter(|header| header.p_type == abi::PT_LOAD).map(move |header| Segment {
            start: header.p_vaddr,
            size: header.p_memsz,
            data: file_bytes(bytes, &header, "segment").unwrap_or_default(),
            offset: header.p_offset,
            write: header.p_flags & abi::PF_W != 0,
            execute: header.p_flags & abi::PF_X != 0,
        })
    }

    /// Calls a function for each relative relocation, with the offset of a word from the image's start, and
    /// an addend. The value of the relocated word is the address of the image's start plus the addend.
    pub fn for_each_relocation(&self, relocate: impl FnMut(u64, u64)) {
        self.relocations.for_each(self, relocate);
    }

    /// Returns the pages that are made read-only after relocation (`PT_GNU_RELRO`), as start and end relative
    /// to the image's start.
    #[must_use]
    pub fn read_only_after_relocation(&self) -> Option<(u64, u64)> {
        let header = self.header(abi::PT_GNU_RELRO)?;
        let end = header.p_vaddr.checked_add(header.p_memsz)?;
        Some((header.p_vaddr.checked_next_multiple_of(PAGE_SIZE)?, end & !(PAGE_SIZE - 1)))
    }

    /// The template of thread-local variables, if there are any.
    #[must_use]
    pub fn tls(&self) -> Option<TlsTemplate> {
        self.header(abi::PT_TLS).map(|header| TlsTemplate {
            start: header.p_vaddr,
            file_size: header.p_filesz,
            memory_size: header.p_memsz,
            align: header.p_align.max(1),
        })
    }

    /// Returns the symbol table (ELF gABI, "Sections"). An image boots without a symbol table, so an invalid
    /// one is ignored.
    #[must_use]
    pub fn symbols(&self) -> Option<SymbolTable<'a>> {
        let sections = self.sections?;
        let table = sections.iter().find(|section| section.sh_type == abi::SHT_SYMTAB)?;
        let strings = sections.get(usize::try_from(table.sh_link).ok()?).ok()?;
        let bytes = |section: &SectionHeader| slice(self.bytes, section.sh_offset, section.sh_size);
        let symbols = SymbolTable { table: bytes(&table)?, strings: bytes(&strings)? };
        let fits = table.sh_entsize == SYMBOL_SIZE as u64 && strings.sh_type == abi::SHT_STRTAB;
        (fits && !symbols.table.is_empty() && !symbols.strings.is_empty()).then_some(symbols)
    }

    fn header(&self, kind: u32) -> Option<ProgramHeader> {
        self.headers.iter().find(|header| header.p_type == kind)
    }
}

fn word(entry: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&entry[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Checks that `bytes` are a bootable image.
///
/// # Errors
///
/// The first error that the check finds.
pub fn check(bytes: &[u8]) -> Result<Image<'_>, ImageError> {
    let file = parse(bytes)?;
    let headers = file.segments().ok_or(ImageError::Truncated("program headers"))?;
    if headers.len() != usize::from(file.ehdr.e_phnum) {
        return Err(ImageError::Truncated("program headers"));
    }
    check_section_headers(bytes, &file)?;
    check_note(&file, &headers)?;
    let (size, align) = check_segments(bytes, &headers, file.ehdr.e_entry)?;
    let mut image = Image {
        bytes,
        entry: file.ehdr.e_entry,
        size,
        align,
        headers,
        relocations: Relocations::default(),
        sections: file.section_headers(),
    };
    check_tls(&image)?;
    image.relocations = Relocations::check(&image, &file)?;
    Ok(image)
}

fn parse(bytes: &[u8]) -> Result<ElfBytes<'_, LittleEndian>, ImageError> {
    if bytes.get(..4) != Some(&[0x7f, b'E', b'L', b'F']) {
        return Err(ImageError::NotElf);
    }
    if bytes.get(4..6) != Some(&[abi::ELFCLASS64, abi::ELFDATA2LSB]) {
        return Err(ImageError::Class);
    }
    let machine = bytes.get(18..20).ok_or(ImageError::Truncated("header"))?;
    let machine = u16::from_le_bytes([machine[0], machine[1]]);
    if machine != abi::EM_X86_64 {
        return Err(ImageError::Machine(machine));
    }
    let [program_headers, _] = header_counts(bytes).ok_or(ImageError::Truncated("header"))?;
    if program_headers > MAX_PROGRAM_HEADERS {
        return Err(ImageError::TooManyHeaders(program_headers));
    }
    if !has_bounded_tables(bytes) {
        return Err(ImageError::Truncated("section headers"));
    }
    let file = ElfBytes::minimal_parse(bytes).map_err(|_| ImageError::Truncated("headers"))?;
    if file.ehdr.e_type != abi::ET_DYN {
        return Err(ImageError::Type(file.ehdr.e_type));
    }
    Ok(file)
}

/// Returns the numbers of program headers and of section headers in the file header (`e_phnum`, `e_shnum`).
fn header_counts(file: &[u8]) -> Option<[u16; 2]> {
    let half = |at: usize| Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?));
    Some([half(56)?, half(60)?])
}

/// Returns true if the file header of a 64-bit file itself contains the sizes of both header tables, and if
/// the number of program headers is within its limit. Otherwise the numbers, of 32 and 64 bits, would be in
/// the first section header (ELF gABI, `PN_XNUM` and `SHN_LORESERVE`). No image has so many headers, and
/// reading such tables could take time in proportion to the size of the file.
pub(crate) fn has_bounded_tables(file: &[u8]) -> bool {
    let has_sections = file.get(40..48).is_some_and(|offset| offset != [0; 8]);
    header_counts(file).is_some_and(|[program_headers, section_headers]| {
        program_headers <= MAX_PROGRAM_HEADERS && (section_headers != 0 || !has_sections)
    })
}

/// Checks that the section headers are in the file. Booting does not need them. But they are at the end of
/// the file, so this check detects a truncated file.
fn check_section_headers(bytes: &[u8], file: &ElfBytes<'_, LittleEndian>) -> Result<(), ImageError> {
    let size = u64::from(file.ehdr.e_shnum) * u64::from(file.ehdr.e_shentsize);
    match file.ehdr.e_shoff.checked_add(size) {
        Some(end) if end <= bytes.len() as u64 => Ok(()),
        _ => Err(ImageError::Truncated("section headers")),
    }
}

fn check_note(file: &ElfBytes<'_, LittleEndian>, headers: &ProgramHeaders<'_>) -> Result<(), ImageError> {
    for header in headers.iter().filter(|header| header.p_type == abi::PT_NOTE) {
        if header.p_filesz > MAX_NOTES {
            return Err(ImageError::Segment("its notes are too large"));
        }
        let notes = file.segment_data_as_notes(&header).map_err(|_| ImageError::Truncated("notes"))?;
        for note in notes {
            let Note::Unknown(note) = note else { continue };
            if note.n_type != u64::from(TYPE_ABI) || note.name_str().ok() != Some(OWNER) {
                continue;
            }
            let version = note.desc.try_into().map_err(|_| ImageError::Truncated("ABI note"))?;
            return match u32::from_le_bytes(version) {
                ABI_VERSION => Ok(()),
                other => Err(ImageError::Abi(other)),
            };
        }
    }
    Err(ImageError::NoNote)
}

fn check_segments(bytes: &[u8], headers: &ProgramHeaders<'_>, entry: u64) -> Result<(u64, u64), ImageError> {
    let (mut free, mut align, mut entry_found) = (0, PAGE_SIZE, false);
    for header in headers.iter().filter(|header| header.p_type == abi::PT_LOAD) {
        file_bytes(bytes, &header, "segments")?;
        let end = header.p_vaddr.checked_add(header.p_memsz);
        let end = end.filter(|&end| end <= MAX_SIZE).ok_or(ImageError::Segment("it is too large"))?;
        if header.p_filesz > header.p_memsz {
            return Err(ImageError::Segment("it is larger in the file than in memory"));
        }
        if header.p_vaddr & !(PAGE_SIZE - 1) < free {
            return Err(ImageError::Segment("it overlaps another"));
        }
        let (write, execute) = (header.p_flags & abi::PF_W != 0, header.p_flags & abi::PF_X != 0);
        if write && execute {
            return Err(ImageError::Segment("it is both writable and executable"));
        }
        if !header.p_align.max(1).is_power_of_two() || header.p_align > MAX_SIZE {
            return Err(ImageError::Segment("its alignment is no power of two"));
        }
        entry_found |= execute && (header.p_vaddr..end).contains(&entry);
        align = align.max(header.p_align);
        free = end.next_multiple_of(PAGE_SIZE);
    }
    if !entry_found {
        return Err(ImageError::Segment("the entry point is outside the code"));
    }
    Ok((free, align))
}

fn check_tls(image: &Image<'_>) -> Result<(), ImageError> {
    let Some(tls) = image.tls() else { return Ok(()) };
    let end = tls.start.checked_add(tls.file_size);
    let fits = end.is_some_and(|end| end <= image.size)
        && tls.file_size <= tls.memory_size
        && tls.memory_size <= MAX_SIZE
        && tls.align.is_power_of_two()
        && tls.align <= PAGE_SIZE;
    if fits { Ok(()) } else { Err(ImageError::Segment("the thread-local template does not fit")) }
}

fn file_bytes<'a>(
    bytes: &'a [u8],
    header: &ProgramHeader,
    what: &'static str,
) -> Result<&'a [u8], ImageError> {
    slice(bytes, header.p_offset, header.p_filesz).ok_or(ImageError::Truncated(what))
}

fn slice(bytes: &[u8], start: u64, size: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(start).ok()?..usize::try_from(start.checked_add(size)?).ok()?)
}

#[cfg(test)]
mod tests;
