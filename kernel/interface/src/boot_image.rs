//! Boot images: the loader and an executable in one ELF file, which `cargo xtask image` writes. A boot image
//! may also contain an initramfs.
//!
//! The executable is the second loadable segment, at [`EXECUTABLE_ADDRESS`]. The third segment, if there is
//! one, is a tar archive ([`crate::tar`]) with the initramfs, in the pages after the executable.
//! A [record](LoaderRecord) in the loader's own segment tells the loader where both are.

use elf::ElfBytes;
use elf::abi;
use elf::endian::LittleEndian;
use zerocopy::{Immutable, IntoBytes};

use crate::{image, to_usize};

/// Physical address of the executable; the loader ends below.
pub const EXECUTABLE_ADDRESS: u64 = 2 << 20;

/// Magic number of the loader's record.
pub const MAGIC: [u8; 8] = *b"HRMTPLD2";

/// The loader's record. In a loader without an executable, all fields except the first one are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct LoaderRecord {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// Physical address and size in bytes of the executable.
    pub executable: [u64; 2],
    /// Physical address and size in bytes of the initramfs; 0 without one.
    pub initramfs: [u64; 2],
}

impl LoaderRecord {
    /// The record in its layout in the file.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        IntoBytes::as_bytes(self)
    }
}

/// A boot image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootImage<'a> {
    /// The executable.
    pub executable: &'a [u8],
    /// The tar archive with the initramfs; empty without one.
    pub initramfs: &'a [u8],
}

/// Returns the parts of a boot image, or `None` for any other file.
#[must_use]
pub fn parse(file: &[u8]) -> Option<BootImage<'_>> {
    if !image::has_bounded_tables(file) {
        return None;
    }
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
    let (initramfs_address, initramfs) = contents().unwrap_or_default();
    let record = LoaderRecord {
        magic: MAGIC,
        executable: [EXECUTABLE_ADDRESS, executable.len() as u64],
        initramfs: [initramfs_address, initramfs.len() as u64],
    };
    let has_record = || loader.windows(size_of_val(&record)).any(|bytes| bytes == record.as_bytes());
    let is_boot_image = address == EXECUTABLE_ADDRESS && !executable.is_empty() && has_record();
    is_boot_image.then_some(BootImage { executable, initramfs })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use proptest::prelude::*;

    #[test]
    fn other_files_are_no_boot_images() {
        for file in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", b"HRMTPLD2"] {
            assert_eq!(parse(file), None);
        }
    }

    proptest! {
        #[test]
        fn parse_accepts_any_bytes(mut file in proptest::collection::vec(any::<u8>(), 0..200)) {
            for (byte, magic) in file.iter_mut().zip(*b"\x7fELF\x02\x01\x01") {
                *byte = magic;
            }
            prop_assert_eq!(parse(&file), None);
        }
    }
}
