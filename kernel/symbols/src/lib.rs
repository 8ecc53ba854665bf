//! Symbolisation of addresses for backtraces: the function that contains an address of the image, and its
//! demangled name.
//!
//! The symbol table is the image's, as the linker wrote it (ELF gABI, "Symbol Table"). Lookups run after a
//! fault or panic, so they do not allocate or sort, and tolerate any bytes: an invalid table yields a wrong
//! name or none.
//!
//! ```
//! use hermit_symbols::SymbolTable;
//!
//! let strings = b"\0_RNvCs1_5shell4main\0";
//! // st_name 1, st_info STT_FUNC, st_other, st_shndx, st_value 0x1000, st_size 0x40.
//! let mut entry = vec![1, 0, 0, 0, 2, 0, 1, 0];
//! entry.extend(0x1000_u64.to_le_bytes());
//! entry.extend(0x40_u64.to_le_bytes());
//! let found = SymbolTable::new(&entry, strings).find(0x1012).unwrap();
//! assert_eq!(found.to_string(), "shell::main+0x12");
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod demangle;
pub mod prologue;

use core::fmt;

use demangle::Demangled;

/// Size of a symbol table entry (`Elf64_Sym`) in bytes.
const ENTRY_SIZE: usize = 24;

/// Symbol type of functions (`STT_FUNC`).
const FUNCTION: u8 = 2;

/// The symbol table of an image.
#[derive(Clone, Copy, Debug)]
pub struct SymbolTable<'a> {
    table: &'a [u8],
    strings: &'a [u8],
}

/// An address as a function's name and an offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolOffset<'a> {
    /// Mangled name of the function.
    pub name: &'a str,
    /// Offset from the function's start in bytes.
    pub offset: u64,
}

impl SymbolOffset<'_> {
    /// Returns the demangled name without generic arguments, to be formatted.
    pub fn demangled(&self) -> impl fmt::Display {
        Demangled(self.name)
    }
}

/// Formats as `function+0x12`, with the demangled name without generic arguments.
impl fmt::Display for SymbolOffset<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}+{:#x}", self.demangled(), self.offset)
    }
}

/// The used fields of a symbol table entry.
#[derive(Clone, Copy, Debug)]
struct SymbolEntry {
    name: u32,
    kind: u8,
    start: u64,
    size: u64,
}

impl SymbolEntry {
    fn read(bytes: &[u8; ENTRY_SIZE]) -> Self {
        let [n0, n1, n2, n3, info, _, _, _, rest @ ..] = *bytes;
        let [s0, s1, s2, s3, s4, s5, s6, s7, size @ ..] = rest;
        Self {
            name: u32::from_le_bytes([n0, n1, n2, n3]),
            kind: info & 0xf,
            start: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            size: u64::from_le_bytes(size),
        }
    }

    fn contains(&self, offset: u64) -> bool {
        offset.checked_sub(self.start).is_some_and(|distance| distance < self.size)
    }

    /// Returns true if the function may contain an offset although its size is 0, like that of some functions
    /// in assembly.
    fn may_reach(&self, offset: u64) -> bool {
        self.size == 0 && self.start <= offset
    }
}

impl<'a> SymbolTable<'a> {
    /// Creates a symbol table from the bytes of `.symtab` and of `.strtab`.
    #[must_use]
    pub const fn new(table: &'a [u8], strings: &'a [u8]) -> Self {
        Self { table, strings }
    }

    /// Finds the named function that contains `offset`, relative to the image's start.
    ///
    /// Of several functions it is the one with the highest start. If none contains the offset, it is the last
    /// function before it whose size is unknown.
    #[must_use]
    pub fn find(&self, offset: u64) -> Option<SymbolOffset<'a>> {
        let (entries, _) = self.table.as_chunks::<ENTRY_SIZE>();
        let functions = || entries.iter().map(SymbolEntry::read).filter(|entry| entry.kind == FUNCTION);
        let containing = functions().filter(|entry| entry.contains(offset)).max_by_key(|entry| entry.start);
        let nearest = || functions().filter(|entry| entry.may_reach(offset)).max_by_key(|entry| entry.start);
        let entry = containing.or_else(nearest)?;
        Some(SymbolOffset { name: self.name(entry.name)?, offset: offset - entry.start })
    }

    /// The string at an offset of the string table.
    fn name(&self, start: u32) -> Option<&'a str> {
        let bytes = self.strings.get(usize::try_from(start).ok()?..)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        core::str::from_utf8(&bytes[..end]).ok().filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{FUNCTION, SymbolOffset, SymbolTable};
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use std::string::ToString;
    use std::vec::Vec;

    const STRINGS: &[u8] = b"\0outer\0inner\0assembly\0data\0\xff\0open";
    const DATA: u8 = 1;

    fn entry(name: u32, kind: u8, start: u64, size: u64) -> Vec<u8> {
        // Global binding and section 1.
        [&name.to_le_bytes()[..], &[0x10 | kind, 0, 1, 0], &start.to_le_bytes(), &size.to_le_bytes()].concat()
    }

    fn table() -> Vec<u8> {
        let entries = [
            entry(0, 0, 0, 0),
            entry(1, FUNCTION, 0x100, 0x100),
            entry(7, FUNCTION, 0x140, 0x10),
            entry(13, FUNCTION, 0x300, 0),
            entry(22, DATA, 0x100, 0x1000),
            entry(27, FUNCTION, 0x500, 1),
            entry(29, FUNCTION, 0x501, 1),
            entry(900, FUNCTION, 0x502, 1),
            entry(1, FUNCTION, u64::MAX - 5, u64::MAX),
        ];
        entries.concat()
    }

    #[test]
    fn find_returns_the_innermost_function() {
        let table = table();
        let find = |offset| SymbolTable::new(&table, STRINGS).find(offset);
        assert_eq!(find(0x100), Some(SymbolOffset { name: "outer", offset: 0 }));
        assert_eq!(find(0x13f), Some(SymbolOffset { name: "outer", offset: 0x3f }));
        assert_eq!(find(0x145), Some(SymbolOffset { name: "inner", offset: 5 }));
        assert_eq!(find(0x1ff), Some(SymbolOffset { name: "outer", offset: 0xff }));
        assert_eq!(find(0x310), Some(SymbolOffset { name: "assembly", offset: 0x10 }));
        assert_eq!(find(u64::MAX), Some(SymbolOffset { name: "outer", offset: 5 }));
        assert_eq!(find(0xff), None);
        assert_eq!(find(0x200), None);
    }

    #[test]
    fn invalid_names_are_none() {
        let table = table();
        for offset in [0x500, 0x501, 0x502] {
            assert_eq!(SymbolTable::new(&table, STRINGS).find(offset), None);
        }
        assert_eq!(SymbolTable::new(&table, &[]).find(0x100), None);
        assert_eq!(SymbolTable::new(&table[..47], STRINGS).find(0x100), None);
    }

    #[test]
    fn display_demangles_names() {
        let shown = |name, offset| SymbolOffset { name, offset }.to_string();
        assert_eq!(shown("_ZN6faults6faults4null17h0123456789abcdefE", 0x12), "faults::faults::null+0x12");
        assert_eq!(shown("_RNvNtCs1234_6faults6faults4null", 1), "faults::faults::null+0x1");
        assert_eq!(shown("memcpy", 0), "memcpy+0x0");
    }

    proptest! {
        #[test]
        fn find_accepts_any_bytes(table in vec(any::<u8>(), 0..500), strings in vec(any::<u8>(), 0..50), at: u64) {
            if let Some(found) = SymbolTable::new(&table, &strings).find(at) {
                prop_assert!(found.offset <= at);
                prop_assert!(!found.to_string().is_empty());
            }
        }

        #[test]
        fn display_accepts_any_name(name in "(_R|_ZN)[a-zA-Z0-9_$.]{0,40}") {
            let found = SymbolOffset { name: &name, offset: 0 };
            prop_assert!(found.to_string().ends_with("+0x0"));
        }

        /// Contiguous functions: each address belongs to the function that contains it.
        #[test]
        fn find_agrees_with_a_linear_search(sizes in vec(1_u64..50, 1..20), at in 0_u64..1000) {
            let mut start = 0;
            let mut table = Vec::new();
            let mut expected = None;
            for size in sizes {
                table.extend(entry(1, FUNCTION, start, size));
                if (start..start + size).contains(&at) {
                    expected = Some(SymbolOffset { name: "outer", offset: at - start });
                }
                start += size;
            }
            prop_assert_eq!(SymbolTable::new(&table, STRINGS).find(at), expected);
        }
    }
}
