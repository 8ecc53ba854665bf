//! A machine's memory.

use std::fs::File;
use std::io;
use std::sync::Arc;

use hermit_boot::{FreeMemory, PhysicalMemory};
use hermit_interface::address::AddressRange;
use hermit_interface::boot_info::Region;
use hermit_interface::machine::HOLE;
use hermit_interface::memory_size::MemorySize;
use hermit_interface::{process, to_usize};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};

/// Where memory goes on that does not fit below the hole.
const HIGH: u64 = 4 << 30;

/// Where memory begins that the image may use: below it the kernel starts CPUs.
const LOW_END: u64 = 1 << 20;

/// Address 0 is not used.
const FIRST: u64 = 0x1000;

/// The unit in which the host says how large a file is.
const BLOCK: u64 = 512;

/// Why a machine has no memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The host refuses it.
    #[error("cannot get {size} of memory for the machine: {source}")]
    Map {
        /// How much was asked for.
        size: MemorySize,
        /// What the host says.
        source: vm_memory::mmap::FromRangesError,
    },
    /// The host refuses memory that another process can see.
    #[error("cannot get memory to share with the guest's process: {0}")]
    Share(#[from] io::Error),
}

/// A machine's memory. The host gives pages when they are first used.
#[derive(Clone, Debug)]
pub struct Memory {
    guest: GuestMemoryMmap,
}

impl Memory {
    /// Fresh memory, all zero, that nobody sees but the machine and this process.
    ///
    /// # Errors
    ///
    /// See [`MemoryError`].
    pub fn new(size: MemorySize) -> Result<Self, MemoryError> {
        Self::map(size, |_| None)
    }

    /// The same as an open file without a name, which another process can map: [`Self::file`].
    ///
    /// # Errors
    ///
    /// See [`MemoryError`].
    pub fn shared(size: MemorySize) -> Result<Self, MemoryError> {
        let file = file(size.bytes()).map_err(io::Error::from)?;
        let file = Arc::new(file);
        Self::map(size, |start| Some(FileOffset::from_arc(Arc::clone(&file), process::memory_offset(start))))
    }

    fn map(size: MemorySize, file: impl Fn(u64) -> Option<FileOffset>) -> Result<Self, MemoryError> {
        let ranges: Vec<_> = ranges(size.bytes())
            .into_iter()
            .filter(|range| range.size > 0)
            .map(|range| (GuestAddress(range.start), to_usize(range.size), file(range.start)))
            .collect();
        let guest = GuestMemoryMmap::from_ranges_with_files(&ranges);
        guest.map(|guest| Self { guest }).map_err(|source| MemoryError::Map { size, source })
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.guest.iter().map(GuestMemoryRegion::len).sum()
    }

    /// The file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        self.guest.iter().next()?.file_offset().map(FileOffset::file)
    }

    /// How many bytes of the file the host has given so far.
    #[must_use]
    pub fn resident(&self) -> Option<u64> {
        let blocks = u64::try_from(fstat(self.file()?).ok()?.st_blocks).ok()?;
        Some(blocks * BLOCK)
    }

    /// The memory as devices and engines see it.
    #[must_use]
    pub const fn guest(&self) -> &GuestMemoryMmap {
        &self.guest
    }

    /// What is free for the image, and what it gets once it runs.
    #[must_use]
    pub fn free(&self) -> (FreeMemory, FreeMemory) {
        let (mut free, mut later) = (FreeMemory::new(), FreeMemory::new());
        for region in self.guest.iter() {
            let (start, end) = (region.start_addr().0, region.start_addr().0 + region.len());
            let low = AddressRange { start: start.max(FIRST), end: end.min(LOW_END) };
            let high = AddressRange { start: start.max(LOW_END), end };
            for (table, range) in [(&mut later, low), (&mut free, high)] {
                // Two regions do not fill a table.
                let _: Result<(), hermit_memory::ranges::FreeError> = table.free(range);
            }
        }
        (free, later)
    }
}

/// A file that stays at its size.
fn file(size: u64) -> Result<File, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match memfd_create("uhyve-memory", flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => memfd_create("uhyve-memory", flags)?,
        result => result?,
    };
    ftruncate(&file, size)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Memory of this size, around the hole.
fn ranges(size: u64) -> [Region; 2] {
    let low = size.min(HOLE.start);
    [Region { start: 0, size: low }, Region { start: HIGH, size: size - low }]
}

/// Memory before the guest runs. The addresses are those of free memory, so that no access can fail.
impl PhysicalMemory for Memory {
    fn write(&mut self, address: u64, bytes: &[u8]) {
        self.guest.write_slice(bytes, GuestAddress(address)).expect("free memory is memory");
    }

    fn zero(&mut self, _address: u64, _size: u64) {
        // It is fresh, and nothing is written twice. Writing zeros would have the host give pages for nothing.
    }

    fn read_word(&self, address: u64) -> u64 {
        let mut word = [0; 8];
        self.guest.read_slice(&mut word, GuestAddress(address)).expect("free memory is memory");
        u64::from_le_bytes(word)
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, ranges};
    use hermit_boot::PhysicalMemory;
    use hermit_interface::boot_info::Region;
    use std::os::unix::fs::FileExt;

    #[test]
    fn memory_goes_around_the_hole() {
        assert_eq!(ranges(64 << 20)[1].size, 0);
        let [low, high] = ranges(8 << 30);
        assert_eq!(low, Region { start: 0, size: 0xd000_0000 });
        assert_eq!(high, Region { start: 4 << 30, size: (8 << 30) - 0xd000_0000 });
    }

    #[test]
    fn shared_memory_is_a_file_that_keeps_its_size() {
        let size = "8M".parse().unwrap();
        let mut memory = Memory::shared(size).unwrap();
        assert_eq!((memory.size(), memory.resident()), (8 << 20, Some(0)));
        memory.write(0x5000, b"text");
        let mut text = [0; 4];
        memory.file().unwrap().read_exact_at(&mut text, 0x5000).unwrap();
        assert_eq!((&text, memory.resident()), (b"text", Some(0x1000)));
        assert!(memory.file().unwrap().set_len(4096).is_err());
        assert!(Memory::new(size).unwrap().file().is_none());
    }

    #[test]
    fn all_memory_is_free_but_the_first_page() {
        for (text, pieces) in [("8M", 1), ("6G", 2)] {
            let memory = Memory::new(text.parse().unwrap()).unwrap();
            let (free, later) = memory.free();
            assert_eq!(free.as_slice().len(), pieces);
            let bytes = text.parse::<hermit_interface::memory_size::MemorySize>().unwrap().bytes();
            assert_eq!(free.total() + later.total(), bytes - 0x1000);
        }
    }
}
