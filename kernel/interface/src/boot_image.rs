//! Boot images: the loader and an executable in one ELF file, as `cargo xtask image` writes it.
//!
//! The executable is the second loadable segment, at [`EXECUTABLE_ADDRESS`]. The loader finds it by a record in its own
//! segment: [`MAGIC`], then address and size of the executable, which are 0 in a loader without one.

use elf::ElfBytes;
use elf::abi;
use elf::endian::LittleEndian;

use crate::to_usize;

/// Physical address of the executable; the loader ends below.
pub const EXECUTABLE_ADDRESS: u64 = 2 << 20;

/// Magic number of the loader's record.
pub const MAGIC: [u8; 8] = *b"HRMTPLD1";

/// The executable in a boot image; `None` for any other file.
#[must_use]
pub fn executable(file: &[u8]) -> Option<&[u8]> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).ok()?;
    let mut segments = elf.segments()?.iter().filter(|segment| segment.p_type == abi::PT_LOAD);
    let mut contents = || -> Option<_> {
        let segment = segments.next()?;
        let start = to_usize(segment.p_offset);
        let end = start.checked_add(to_usize(segment.p_filesz))?;
        Some((segment.p_paddr, file.get(start..end)?))
    };
    let (_, loader) = contents()?;
    let (address, executable) = contents()?;
    let size = u64::try_from(executable.len()).ok()?;
    let mut record = [0; 24];
    record[..8].copy_from_slice(&MAGIC);
    record[8..16].copy_from_slice(&EXECUTABLE_ADDRESS.to_le_bytes());
    record[16..].copy_from_slice(&size.to_le_bytes());
    let has_record = || loader.windows(record.len()).any(|bytes| bytes == record);
    (address == EXECUTABLE_ADDRESS && size > 0 && has_record()).then_some(executable)
}

#[cfg(test)]
mod tests {
    use super::executable;
    use proptest::prelude::*;

    #[test]
    fn other_files_are_no_boot_images() {
        for file in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", b"HRMTPLD1"] {
            assert_eq!(executable(file), None);
        }
    }

    proptest! {
        #[test]
        fn executable_accepts_any_bytes(mut file in proptest::collection::vec(any::<u8>(), 0..200)) {
            for (byte, magic) in file.iter_mut().zip(*b"\x7fELF\x02\x01\x01") {
                *byte = magic;
            }
            prop_assert_eq!(executable(&file), None);
        }
    }
}
