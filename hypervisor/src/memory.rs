//! Guest memory: layout, access, loading an image into it, and returning unused pages to the host.
//!
//! Guest memory has one or two regions. The first one is from physical address 0 up to the memory hole, where
//! device registers are. The second one begins at 4 GiB. With KVM it is private anonymous memory. With the
//! process engine it is a sealed anonymous file (memfd), because the guest's process maps it, too. In both
//! cases the host allocates a page at its first use. The guest may return pages that it no longer needs
//! ([`Memory::discard`]). The host frees them, and the next access finds zeros.

mod discard;

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hermit_boot::{FreeMemory, PhysicalMemory};
use hermit_interface::address::{AddressRange, PAGE_SIZE};
use hermit_interface::boot_info::Region;
use hermit_interface::machine::{HOLE, MAX_RETURNED};
use hermit_interface::memory_size::MemorySize;
use hermit_interface::{process, to_usize};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate, memfd_create, seek,
    sendfile,
};
use rustix::io::Errno;
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    MemoryRegionAddress, VolatileMemory, VolatileSlice,
};

/// Physical address of the memory that does not fit below the memory hole.
const HIGH_START: u64 = 4 << 30;

/// First physical address that the image may use. The kernel starts CPUs in the memory below this address.
const LOW_END: u64 = 1 << 20;

/// First physical address of free memory. The page at address 0 stays unused.
const MIN_ADDRESS: u64 = 0x1000;

/// Minimum size in bytes of a write that the image's loader makes to the file of shared memory. Smaller
/// writes go to the mapping.
const MIN_FILE_WRITE: usize = 1 << 14;

/// Unit of `st_blocks` in bytes (stat(2)).
const BLOCK: u64 = 512;

/// Panic message for accesses of the image's loader, which cannot fail.
const FREE: &str = "free memory is memory";

/// Why guest memory cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The memory cannot be mapped.
    #[error("cannot map {size} of guest memory: {source}")]
    Map {
        /// Requested size.
        size: MemorySize,
        /// Error of the mapping.
        source: vm_memory::mmap::FromRangesError,
    },
    /// The file for shared memory cannot be created.
    #[error("cannot create the file of guest memory: {0}")]
    Share(#[from] io::Error),
}

/// Guest memory. The host allocates a page at its first use.
#[derive(Clone, Debug)]
pub struct Memory {
    guest: GuestMemoryMmap,
    returned: Arc<Returned>,
}

/// Memory that the guest has returned.
#[derive(Debug, Default)]
struct Returned {
    /// See [`Memory::returned`].
    bytes: AtomicU64,
    /// Largest value of [`Memory::resident`] just before the guest returned memory.
    peak: AtomicU64,
}

impl Memory {
    /// Maps private memory, filled with zeros.
    ///
    /// # Errors
    ///
    /// See [`MemoryError`].
    pub fn new(size: MemorySize) -> Result<Self, MemoryError> {
        Self::map(size, |_| None)
    }

    /// Maps memory of an anonymous file, which another process can map too ([`Self::file`]).
    ///
    /// # Errors
    ///
    /// See [`MemoryError`].
    pub fn shared(size: MemorySize) -> Result<Self, MemoryError> {
        let file = sealed_file(size.bytes()).map_err(io::Error::from)?;
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
        guest
            .map(|guest| Self { guest, returned: Arc::default() })
            .map_err(|source| MemoryError::Map { size, source })
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.guest.iter().map(GuestMemoryRegion::len).sum()
    }

    /// Returns the file of shared memory; `None` for private memory.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        self.guest.iter().next()?.file_offset().map(FileOffset::file)
    }

    /// Returns the number of bytes of the file that the host has allocated now; `None` for private memory.
    #[must_use]
    pub fn resident(&self) -> Option<u64> {
        let blocks = u64::try_from(fstat(self.file()?).ok()?.st_blocks).ok()?;
        Some(blocks * BLOCK)
    }

    /// Returns the largest number of bytes of the file that were ever allocated; `None` for private memory.
    #[must_use]
    pub fn peak(&self) -> Option<u64> {
        // The allocated size shrinks only when memory is returned, and `peak` has its maximum before these
        // times.
        self.resident().map(|resident| resident.max(self.returned.peak.load(Ordering::Relaxed)))
    }

    /// Returns the number of bytes that the guest has returned to the host. For shared memory, it counts the
    /// bytes that the host has freed. For private memory, it counts all bytes of the returned ranges,
    /// including bytes that were never used or were already returned.
    #[must_use]
    pub fn returned(&self) -> u64 {
        self.returned.bytes.load(Ordering::Relaxed)
    }

    /// Frees whole pages on the host. The next access finds zeros, so a guest that returns memory that it
    /// still uses harms only itself. Returns false if the guest may not return this range.
    pub fn discard(&self, start: u64, size: u64) -> bool {
        let is_valid = start.is_multiple_of(PAGE_SIZE)
            && size.is_multiple_of(PAGE_SIZE)
            && (PAGE_SIZE..=MAX_RETURNED).contains(&size)
            && self.guest.check_range(GuestAddress(start), to_usize(size));
        if !is_valid {
            return false;
        }
        match self.file() {
            Some(file) => self.punch(file, start, size),
            None => self.discard_private(start, size),
        }
    }

    /// Frees pages of private memory. Unlike a file, a private mapping offers no cheap way to find out which
    /// of its pages were resident, so the whole range counts as returned. The count is too large if the guest
    /// returns unused pages, or the same pages twice. It is only used for statistics.
    fn discard_private(&self, start: u64, size: u64) -> bool {
        let is_done = discard::discard_private(&self.guest, GuestAddress(start), to_usize(size));
        if is_done {
            self.returned.bytes.fetch_add(size, Ordering::Relaxed);
        }
        is_done
    }

    /// Frees pages of shared memory. Computes the number of freed bytes from the allocated size of the file
    /// before and after.
    fn punch(&self, file: &File, start: u64, size: u64) -> bool {
        let before = self.resident().unwrap_or_default();
        self.returned.peak.fetch_max(before, Ordering::Relaxed);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let is_done = fallocate(file, flags, process::memory_offset(start), size).is_ok();
        let freed = before.saturating_sub(self.resident().unwrap_or(before));
        self.returned.bytes.fetch_add(freed, Ordering::Relaxed);
        is_done
    }

    /// Copies `size` bytes from an offset in a file to free memory, before the guest runs.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has become shorter.
    pub fn copy(&self, address: u64, mut file: &File, offset: u64, size: usize) -> io::Result<()> {
        let Some(memory) = self.file() else {
            file.seek(SeekFrom::Start(offset))?;
            let mut file = file.as_fd();
            let read = self.guest.read_exact_volatile_from(GuestAddress(address), &mut file, size);
            return read.map_err(io::Error::other);
        };
        // The kernel copies from file to file, without page faults and without a buffer in this process.
        seek(memory, rustix::fs::SeekFrom::Start(process::memory_offset(address)))?;
        let (mut offset, mut left) = (offset, size);
        while left > 0 {
            match sendfile(memory, file, Some(&mut offset), left)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => left -= count,
            }
        }
        Ok(())
    }

    /// Returns the 64-bit word at an address of free memory, of any alignment.
    fn word(&self, address: u64) -> VolatileSlice<'_> {
        // Optimisation: loading an image accesses thousands of words, and most of them are in the first
        // region, which starts at 0.
        let first = self.guest.iter().next().filter(|first| address < first.len());
        let region = first.or_else(|| self.guest.find_region(GuestAddress(address))).expect(FREE);
        let offset = MemoryRegionAddress(address - region.start_addr().0);
        region.get_slice(offset, size_of::<u64>()).expect(FREE)
    }

    /// Returns the memory regions, by guest physical address.
    #[must_use]
    pub const fn guest(&self) -> &GuestMemoryMmap {
        &self.guest
    }

    /// Returns the free memory in two parts: the ranges into which the image may be loaded, and the ranges
    /// that the kernel adds when it runs.
    #[must_use]
    pub fn free(&self) -> (FreeMemory, FreeMemory) {
        let (mut free, mut later) = (FreeMemory::new(), FreeMemory::new());
        for region in self.guest.iter() {
            let (start, end) = (region.start_addr().0, region.start_addr().0 + region.len());
            let low = AddressRange { start: start.max(MIN_ADDRESS), end: end.min(LOW_END) };
            let high = AddressRange { start: start.max(LOW_END), end };
            for (table, range) in [(&mut later, low), (&mut free, high)] {
                // Fails if the table is full. There are at most two regions.
                let _: Result<(), hermit_memory::ranges::FreeError> = table.free(range);
            }
        }
        (free, later)
    }
}

/// Creates an anonymous file whose size is sealed.
fn sealed_file(size: u64) -> Result<File, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match memfd_create("uhyve-memory", flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know MFD_NOEXEC_SEAL.
        Err(Errno::INVAL) => memfd_create("uhyve-memory", flags)?,
        result => result?,
    };
    ftruncate(&file, size)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Returns the regions below and above the memory hole for `size` bytes of memory.
fn ranges(size: u64) -> [Region; 2] {
    let low = size.min(HOLE.start);
    [Region { start: 0, size: low }, Region { start: HIGH_START, size: size - low }]
}

/// Access by the image's loader. No access fails, because the loader uses only addresses from
/// [`Memory::free`].
impl PhysicalMemory for Memory {
    fn write(&mut self, address: u64, bytes: &[u8]) {
        // Writing to the file avoids page faults, and the kernel need not zero pages that are overwritten as
        // a whole.
        if bytes.len() >= MIN_FILE_WRITE
            && let Some(file) = self.file()
            && file.write_all_at(bytes, process::memory_offset(address)).is_ok()
        {
            return;
        }
        self.guest.write_slice(bytes, GuestAddress(address)).expect(FREE);
    }

    fn zero(&mut self, _address: u64, _size: u64) {
        // The mapping is new, so it is zero, and the loader writes no page twice. Writing zeros would
        // allocate pages on the host.
    }

    fn read_word(&self, address: u64) -> u64 {
        self.word(address).get_ref(0).expect(FREE).load()
    }

    fn write_word(&mut self, address: u64, word: u64) {
        self.word(address).get_ref(0).expect(FREE).store(word);
    }
}

#[cfg(test)]
mod tests {
    use super::{HOLE, MAX_RETURNED, Memory, ranges};
    use hermit_boot::PhysicalMemory;
    use hermit_interface::boot_info::Region;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    #[test]
    fn ranges_leave_out_memory_hole() {
        assert_eq!(ranges(64 << 20)[1].size, 0);
        let [low, high] = ranges(8 << 30);
        assert_eq!(low, Region { start: 0, size: 0xd000_0000 });
        assert_eq!(high, Region { start: 4 << 30, size: (8 << 30) - 0xd000_0000 });
    }

    #[test]
    fn shared_memory_is_a_file_of_sealed_size() {
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
    fn discarded_pages_are_zero_and_not_resident() {
        let mut memory = Memory::shared("8M".parse().unwrap()).unwrap();
        memory.write(0x5000, &[1; 0x4000]);
        assert!(memory.clone().discard(0x6000, 0x2000));
        assert_eq!(
            (memory.resident(), memory.peak(), memory.returned()),
            (Some(0x2000), Some(0x4000), 0x2000)
        );
        let words = [0x5ff8, 0x6000, 0x7ff8, 0x8000].map(|address| memory.read_word(address));
        assert_eq!(words, [u64::MAX / 255, 0, 0, u64::MAX / 255]);
        // Pages without memory are no error.
        assert!(memory.discard(0x10_0000, MAX_RETURNED));
        assert_eq!(memory.returned(), 0x2000);
    }

    #[test]
    fn discarded_pages_of_private_memory_are_zero() {
        let mut memory = Memory::new("8M".parse().unwrap()).unwrap();
        memory.write(0x5000, &[1; 0x4000]);
        assert!(memory.clone().discard(0x6000, 0x2000));
        assert_eq!((memory.resident(), memory.peak(), memory.returned()), (None, None, 0x2000));
        let words = [0x5ff8, 0x6000, 0x7ff8, 0x8000].map(|address| memory.read_word(address));
        assert_eq!(words, [u64::MAX / 255, 0, 0, u64::MAX / 255]);
        assert!(!memory.discard(8 << 20, 0x1000) && !memory.discard(0x6800, 0x1000));
        assert_eq!(memory.returned(), 0x2000);
    }

    #[test]
    fn ranges_that_a_guest_may_not_return_are_refused() {
        let size = "6G".parse().unwrap();
        [Memory::shared(size).unwrap(), Memory::new(size).unwrap()]
            .iter()
            .for_each(invalid_ranges_are_refused);
    }

    fn invalid_ranges_are_refused(memory: &Memory) {
        for (start, size) in [
            (0x800, 0x1000),
            (0x1000, 0x800),
            (0x1000, 0),
            (0x1000, MAX_RETURNED + 0x1000),
            (HOLE.start - 0x1000, 0x2000),
            (HOLE.start, 0x1000),
            (HOLE.end() + (6 << 30) - HOLE.start - 0x1000, 0x2000),
            (u64::MAX - 0xfff, 0x1000),
        ] {
            assert!(!memory.discard(start, size), "{start:#x}, {size:#x}");
        }
        assert!(memory.discard(HOLE.start - 0x1000, 0x1000) && memory.discard(HOLE.end(), 0x1000));
    }

    #[test]
    fn copy_takes_bytes_of_a_file_that_has_them() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1, 2, 3]).unwrap();
        for memory in [Memory::new("8M".parse().unwrap()), Memory::shared("8M".parse().unwrap())] {
            let memory = memory.unwrap();
            memory.copy(0x1000, &file, 1, 2).unwrap();
            assert_eq!(memory.read_word(0x1000), 0x0302);
            assert!(memory.copy(0x2000, &file, 1, 3).is_err());
        }
    }

    #[test]
    fn all_memory_but_first_page_is_free() {
        for (text, pieces) in [("8M", 1), ("6G", 2)] {
            let memory = Memory::new(text.parse().unwrap()).unwrap();
            let (free, later) = memory.free();
            assert_eq!(free.as_slice().len(), pieces);
            let bytes = text.parse::<hermit_interface::memory_size::MemorySize>().unwrap().bytes();
            assert_eq!(free.total() + later.total(), bytes - 0x1000);
        }
    }
}
