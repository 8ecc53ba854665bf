//! Removes debugging information from executables. QEMU's modules and boot images put the whole file into the
//! guest's memory, which debugging information would fill. Debuggers read the original executable on the
//! host.

use object::elf::{FileHeader64, SHT_NULL, SHT_STRTAB, SHT_SYMTAB, SectionHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, U32, U64, pod};

/// Alignment of sections and section headers in the file, in bytes.
const ALIGN: usize = 8;

/// Copies an executable without its debugging information. The copy has all segments. Among the sections
/// after the segments, it has only the symbol table and the string tables, which backtraces need. Section
/// headers keep their numbers, because symbols refer to sections by number.
///
/// Returns `None` if the file is not a complete ELF file.
pub fn without_debug_info(executable: &[u8]) -> Option<Vec<u8>> {
    let endian = LittleEndian;
    let header = FileHeader64::<LittleEndian>::parse(executable).ok()?;
    let sections = header.section_headers(endian, executable).ok()?;
    let segments = header.program_headers(endian, executable).ok()?;
    let headers_end = header.e_phoff(endian).checked_add(size_of_val(segments) as u64)?;
    let ends = segments.iter().map(|segment| segment.p_offset(endian).checked_add(segment.p_filesz(endian)));
    let ends = ends.chain([Some(headers_end)]).collect::<Option<Vec<_>>>()?;
    let loaded_end = ends.into_iter().max()?;

    let mut copy = executable.get(..usize::try_from(loaded_end).ok()?)?.to_vec();
    let mut kept = Vec::new();
    for section in sections {
        let mut section = *section;
        let range = section.file_range(endian).unwrap_or_default();
        if range.0.checked_add(range.1)? > loaded_end {
            move_or_clear(&mut section, executable, &mut copy)?;
        }
        kept.push(section);
    }
    let header_offset = append(&mut copy, pod::bytes_of_slice(&kept));
    let mut header = *header;
    header.e_shoff = U64::new(endian, header_offset);
    copy[..size_of_val(&header)].copy_from_slice(pod::bytes_of(&header));
    Some(copy)
}

/// Appends a section to `copy` if it contains symbols or strings. Otherwise marks its header as unused
/// (`SHT_NULL`).
fn move_or_clear(
    section: &mut SectionHeader64<LittleEndian>,
    executable: &[u8],
    copy: &mut Vec<u8>,
) -> Option<()> {
    let endian = LittleEndian;
    match section.sh_type(endian) {
        SHT_SYMTAB | SHT_STRTAB => {
            let data = section.data(endian, executable).ok()?;
            section.sh_offset = U64::new(endian, append(copy, data));
        }
        _ => {
            section.sh_type = U32::new(endian, SHT_NULL);
            section.sh_size = U64::new(endian, 0);
        }
    }
    Some(())
}

/// Appends bytes, aligned to [`ALIGN`], and returns their offset.
fn append(file: &mut Vec<u8>, bytes: &[u8]) -> u64 {
    file.resize(file.len().next_multiple_of(ALIGN), 0);
    let offset = file.len() as u64;
    file.extend_from_slice(bytes);
    offset
}

#[cfg(test)]
mod tests {
    use super::without_debug_info;
    use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionIndex};
    use std::fs;
    use std::process::Command;
    use tempfile::TempDir;

    /// Returns addresses and contents of the segments. Leaves out the ELF header in the first segment,
    /// because it contains the position of the section headers, which differs between the files.
    fn segments(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let file = object::File::parse(bytes).unwrap();
        let data = |data: &[u8]| data.strip_prefix(b"\x7fELF").map_or(data, |rest| &rest[60..]).to_vec();
        file.segments().map(|segment| (segment.address(), data(segment.data().unwrap()))).collect()
    }

    /// Returns names, addresses and sections of the symbols.
    fn symbols(bytes: &[u8]) -> Vec<(String, u64, Option<SectionIndex>)> {
        let file = object::File::parse(bytes).unwrap();
        let name = |name: &str| name.to_owned();
        let symbols = file.symbols();
        symbols
            .map(|symbol| (name(symbol.name().unwrap()), symbol.address(), symbol.section_index()))
            .collect()
    }

    /// Compiles a program with debugging information. The test executables themselves may lack it, depending
    /// on the profile.
    fn program_with_debug_info() -> Vec<u8> {
        let folder = TempDir::new().unwrap();
        let source = folder.path().join("program.rs");
        fs::write(&source, "fn main() {}").unwrap();
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
        rustc.args(["-g", "-o"]).arg(folder.path().join("program")).arg(&source);
        hermit_toolchain::process::output(&mut rustc).unwrap();
        fs::read(folder.path().join("program")).unwrap()
    }

    #[test]
    fn segments_and_symbols_are_kept_and_debug_information_is_not() {
        let program = program_with_debug_info();
        let copy = without_debug_info(&program).unwrap();
        let debug = |bytes: &[u8]| -> u64 {
            let file = object::File::parse(bytes).unwrap();
            [".debug_info", ".debug_line"].map(|name| file.section_by_name(name).unwrap().size()).iter().sum()
        };
        assert!(debug(&program) > 0 && debug(&copy) == 0);
        assert!(copy.len() < program.len());
        assert!(symbols(&program).len() > 1000);
        assert!(symbols(&copy) == symbols(&program));
        assert!(segments(&copy) == segments(&program));
        assert_eq!(without_debug_info(&copy).unwrap(), copy);
    }

    #[test]
    fn files_that_are_no_complete_executables_are_refused() {
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        let cases: [&[u8]; 5] = [
            b"",
            b"#!/bin/sh\n",
            &program[..64],
            &program[..program.len() / 2],
            &program[..program.len() - 1],
        ];
        for bytes in cases {
            assert_eq!(without_debug_info(bytes), None, "{} bytes", bytes.len());
        }
    }
}
