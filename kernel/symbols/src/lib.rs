//! Which function an address of the image belongs to, for reports of what went wrong.
//!
//! The names are those of the image's symbol table, as the linker wrote it (ELF gABI, "Symbol Table"). They are
//! looked up when something has gone wrong already, so nothing is allocated, sorted or relied upon: whatever the
//! bytes are, the worst is a wrong name or none.
#![no_std]
#![forbid(unsafe_code)]

mod demangle;

use core::fmt;

use demangle::Demangled;

/// Size of an entry of the table (`Elf64_Sym`).
const ENTRY_SIZE: usize = 24;

/// The kind of symbol that names code (`STT_FUNC`).
const FUNCTION: u8 = 2;

/// The symbols of an image.
#[derive(Clone, Copy, Debug)]
pub struct SymbolTable<'a> {
    table: &'a [u8],
    strings: &'a [u8],
}

/// A place in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolOffset<'a> {
    /// Name of the function as the linker knows it.
    pub name: &'a str,
    /// How many bytes after the function's start the place is.
    pub offset: u64,
}

/// `function+0x12`, with the name as it is in the source, without generic arguments.
impl fmt::Display for SymbolOffset<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}+{:#x}", Demangled(self.name), self.offset)
    }
}

/// What is of interest of an entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name: u32,
    kind: u8,
    start: u64,
    size: u64,
}

impl Entry {
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

    /// Whether it may reach up to an offset after it, for assembly need not say how large a function is.
    fn may_reach(&self, offset: u64) -> bool {
        self.size == 0 && self.start <= offset
    }
}

impl<'a> SymbolTable<'a> {
    /// The symbols in a table (`.symtab`) with the names in `strings` (`.strtab`).
    #[must_use]
    pub const fn new(table: &'a [u8], strings: &'a [u8]) -> Self {
        Self { table, strings }
    }

    /// The function that contains the byte at `offset` from the image's start, if there is one with a name.
    ///
    /// Of several it is the one that starts last. Where none contains it, it is the last one before it whose size
    /// is not known.
    #[must_use]
    pub fn find(&self, offset: u64) -> Option<SymbolOffset<'a>> {
        let (entries, _) = self.table.as_chunks::<ENTRY_SIZE>();
        let functions = || entries.iter().map(Entry::read).filter(|entry| entry.kind == FUNCTION);
        let containing = functions().filter(|entry| entry.contains(offset)).max_by_key(|entry| entry.start);
        let nearest = || functions().filter(|entry| entry.may_reach(offset)).max_by_key(|entry| entry.start);
        let entry = containing.or_else(nearest)?;
        Some(SymbolOffset { name: self.name(entry.name)?, offset: offset - entry.start })
    }

    /// The string that starts at `start`.
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
    fn the_function_around_an_address_is_found() {
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
    fn broken_names_are_none() {
        let table = table();
        for offset in [0x500, 0x501, 0x502] {
            assert_eq!(SymbolTable::new(&table, STRINGS).find(offset), None);
        }
        assert_eq!(SymbolTable::new(&table, &[]).find(0x100), None);
        assert_eq!(SymbolTable::new(&table[..47], STRINGS).find(0x100), None);
    }

    #[test]
    fn names_are_as_in_the_source() {
        let shown = |name, offset| SymbolOffset { name, offset }.to_string();
        assert_eq!(shown("_ZN6faults6faults4null17h0123456789abcdefE", 0x12), "faults::faults::null+0x12");
        assert_eq!(shown("_RNvNtCs1234_6faults6faults4null", 1), "faults::faults::null+0x1");
        assert_eq!(shown("memcpy", 0), "memcpy+0x0");
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(table in vec(any::<u8>(), 0..500), strings in vec(any::<u8>(), 0..50), at: u64) {
            if let Some(place) = SymbolTable::new(&table, &strings).find(at) {
                prop_assert!(place.offset <= at);
                prop_assert!(!place.to_string().is_empty());
            }
        }

        #[test]
        fn no_name_is_too_strange(name in "(_R|_ZN)[a-zA-Z0-9_$.]{0,40}") {
            let place = SymbolOffset { name: &name, offset: 0 };
            prop_assert!(place.to_string().ends_with("+0x0"));
        }

        /// Functions one after the other: each address belongs to the one it is in.
        #[test]
        fn it_agrees_with_counting(sizes in vec(1_u64..50, 1..20), at in 0_u64..1000) {
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
