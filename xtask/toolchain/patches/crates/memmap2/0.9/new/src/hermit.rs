//! Maps of files as copies: the system maps memory, not files.
//!
//! A map has the contents that its file had when it was made, and zeros beyond the end of the file. Later
//! changes of the file do not appear in it. Changes of a shared map are written to the file by `flush`, when
//! the map is dropped and when the program exits. Only bytes are written that differ from those that the map
//! last read or wrote, as other maps and `write` may have changed the bytes between them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};
use std::os::hermit::fs::{FileExt, FileTypeExt};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{ptr, slice};

const PROT_READ: u32 = 1;
const PROT_WRITE: u32 = 1 << 1;
const PROT_EXEC: u32 = 1 << 2;

const F_GETFL: i32 = 3;
const O_ACCMODE: i32 = 3;
const O_WRONLY: i32 = 1;
const O_RDWR: i32 = 2;
const O_APPEND: i32 = 0o2000;

const EACCES: i32 = 13;
const ENODEV: i32 = 19;
const EOVERFLOW: i32 = 75;

/// Unit of writing back, in bytes: whole pages.
const BLOCK: usize = 1 << 16;

/// Size of the words that are read from a map, in bytes.
const WORD: usize = size_of::<u64>();

unsafe extern "C" {
    fn sys_mmap(size: usize, prot_flags: u32, ret: &mut *mut u8) -> i32;
    fn sys_munmap(ptr: *mut u8, size: usize) -> i32;
    fn sys_mprotect(ptr: *mut u8, size: usize, prot_flags: u32) -> i32;
    fn sys_fcntl(fd: i32, cmd: i32, arg: i32) -> i32;
}

/// The result of a system call.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

/// The file of a shared map.
struct SharedFile {
    file: File,
    /// Where the map begins in the file, in bytes.
    offset: u64,
    /// Contents of the map when they were last equal to the file's; none if the map has not been writable.
    synced: Option<Vec<u8>>,
}

/// Files that are open for reading and writing and have a shared map, by the map's address. The lock is held
/// while a map is written back: no other map changes the file between reading and writing.
static SHARED: Mutex<BTreeMap<usize, SharedFile>> = Mutex::new(BTreeMap::new());

fn shared() -> MutexGuard<'static, BTreeMap<usize, SharedFile>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes maps back that the program does not drop.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = write_back_all;

extern "C" fn write_back_all() {
    for (&address, shared) in shared().iter_mut() {
        let length = shared.synced.as_ref().map_or(0, Vec::len);
        // SAFETY: maps are removed before they are unmapped, under the lock that `shared` holds.
        let _ = unsafe { shared.write_back(ptr::with_exposed_provenance(address), 0, length) };
    }
}

impl SharedFile {
    /// Writes changes of a range of the map at `map` to the file, which it does not extend.
    ///
    /// # Safety
    ///
    /// `map` must be mapped, readable, and as long as `self.synced`, rounded up to whole pages.
    unsafe fn write_back(&mut self, map: *const u8, start: usize, end: usize) -> io::Result<()> {
        let Some(synced) = &mut self.synced else { return Ok(()) };
        let size = self.file.metadata()?.len().saturating_sub(self.offset);
        let end = end.min(usize::try_from(size).unwrap_or(usize::MAX));
        let (mut block, mut current) = (vec![0; BLOCK], vec![0; BLOCK]);
        for start in (start / BLOCK * BLOCK..end).step_by(BLOCK) {
            let length = BLOCK.min(end - start);
            let block = &mut block[..length];
            for (index, bytes) in block.chunks_mut(WORD).enumerate() {
                // SAFETY: whole words of the map's pages, since maps begin with a page; the program may
                // write to a `MmapRaw` at the same time, hence a volatile access.
                let word = unsafe { map.add(start + index * WORD).cast::<u64>().read_volatile() };
                bytes.copy_from_slice(&word.to_ne_bytes()[..bytes.len()]);
            }
            let (block, synced) = (&*block, &mut synced[start..start + length]);
            if block == synced {
                continue;
            }
            let is_changed = |index: &usize| block[*index] != synced[*index];
            let first = (0..length).find(is_changed).unwrap_or(0);
            let last = (0..length).rfind(is_changed).unwrap_or(0);

            let (new, old) = (&block[first..=last], &mut synced[first..=last]);
            let merged = &mut current[..new.len()];
            let offset = self.offset + (start + first) as u64;
            let found = read(&self.file, merged, offset)?;
            for (merged, (new, old)) in merged.iter_mut().zip(new.iter().zip(&*old)) {
                if new != old {
                    *merged = *new;
                }
            }
            self.file.write_all_at(&merged[..found], offset)?;
            old.copy_from_slice(new);
        }
        Ok(())
    }
}

/// Reads from an offset until the buffer is full or the file ends. Returns the number of bytes.
fn read(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// A file to be mapped, whose descriptor the caller of this crate owns.
struct Source {
    file: ManuallyDrop<File>,
    /// Flags that the file is open with.
    flags: i32,
}

impl Source {
    /// Fails with `EACCES` if the file is not open for reading, and with `ENODEV` if it is no file or disk.
    fn new(fd: RawFd) -> io::Result<Source> {
        // SAFETY: reads the flags of a descriptor.
        let flags = check(unsafe { sys_fcntl(fd, F_GETFL, 0) })?;
        // SAFETY: the descriptor is open, and is not closed here.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
        let kind = file.metadata()?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(io::Error::from_raw_os_error(ENODEV));
        }
        if flags & O_ACCMODE == O_WRONLY {
            return Err(io::Error::from_raw_os_error(EACCES));
        }
        Ok(Source { file, flags })
    }

    /// Changes of a map can be written to the file at their offsets.
    fn is_writable(&self) -> bool {
        self.flags & O_ACCMODE == O_RDWR && self.flags & O_APPEND == 0
    }
}

/// Relation between changes of a map and its file.
#[derive(PartialEq)]
enum Kind {
    /// There is no file, or changes do not concern it.
    Private,
    /// The map is shared with a file that it cannot change.
    ReadOnly,
    /// The map is in `SHARED`.
    Shared,
}

pub struct MmapInner {
    address: *mut u8,
    length: usize,
    kind: Kind,
}

impl MmapInner {
    /// Maps memory that is zero, readable and writable: at least a page, also if `length` is 0.
    fn zeroed(length: usize) -> io::Result<MmapInner> {
        let mut address = ptr::null_mut();
        // SAFETY: maps new memory, and stores its address in `address`.
        check(unsafe { sys_mmap(length.max(1), PROT_READ | PROT_WRITE, &mut address) })?;
        Ok(MmapInner { address, length, kind: Kind::Private })
    }

    /// Maps a copy of a part of a file, readable and writable.
    fn copy(length: usize, source: &Source, offset: u64) -> io::Result<MmapInner> {
        let end = offset.checked_add(length as u64);
        if end.and_then(|end| i64::try_from(end).ok()).is_none() {
            return Err(io::Error::from_raw_os_error(EOVERFLOW));
        }
        let map = MmapInner::zeroed(length)?;
        // SAFETY: the memory is mapped, initialized and used by nothing else yet.
        read(&source.file, unsafe { slice::from_raw_parts_mut(map.address, length) }, offset)?;
        Ok(map)
    }

    /// Maps a part of a file whose changes concern the file, readable and writable.
    fn share(length: usize, source: &Source, offset: u64) -> io::Result<MmapInner> {
        let mut map = MmapInner::copy(length, source, offset)?;
        map.kind = Kind::ReadOnly;
        if source.is_writable() {
            let file = source.file.try_clone()?;
            shared().insert(map.address.expose_provenance(), SharedFile { file, offset, synced: None });
            map.kind = Kind::Shared;
        }
        Ok(map)
    }

    fn protect(&mut self, prot: u32) -> io::Result<()> {
        // SAFETY: the memory is mapped, and `&mut self` excludes its use; users of a `MmapRaw` answer for
        // theirs.
        check(unsafe { sys_mprotect(self.address, self.length.max(1), prot) })?;
        Ok(())
    }

    pub fn map(
        length: usize,
        fd: RawFd,
        offset: u64,
        _populate: bool,
        _no_reserve: bool,
        _probe_handle: bool,
    ) -> io::Result<MmapInner> {
        let mut map = MmapInner::share(length, &Source::new(fd)?, offset)?;
        map.make_read_only()?;
        Ok(map)
    }

    pub fn map_exec(
        length: usize,
        fd: RawFd,
        offset: u64,
        _populate: bool,
        _no_reserve: bool,
        _probe_handle: bool,
    ) -> io::Result<MmapInner> {
        let mut map = MmapInner::share(length, &Source::new(fd)?, offset)?;
        map.make_exec()?;
        Ok(map)
    }

    pub fn map_mut(
        length: usize,
        fd: RawFd,
        offset: u64,
        _populate: bool,
        _no_reserve: bool,
        _probe_handle: bool,
    ) -> io::Result<MmapInner> {
        let source = Source::new(fd)?;
        if source.flags & O_ACCMODE != O_RDWR {
            return Err(io::Error::from_raw_os_error(EACCES));
        }
        if !source.is_writable() {
            // Writes to a file with `O_APPEND` go to its end.
            return Err(ErrorKind::Unsupported.into());
        }
        let mut map = MmapInner::share(length, &source, offset)?;
        map.make_mut()?;
        Ok(map)
    }

    pub fn map_copy(
        length: usize,
        fd: RawFd,
        offset: u64,
        _populate: bool,
        _no_reserve: bool,
        _probe_handle: bool,
    ) -> io::Result<MmapInner> {
        MmapInner::copy(length, &Source::new(fd)?, offset)
    }

    pub fn map_copy_read_only(
        length: usize,
        fd: RawFd,
        offset: u64,
        _populate: bool,
        _no_reserve: bool,
        _probe_handle: bool,
    ) -> io::Result<MmapInner> {
        let mut map = MmapInner::copy(length, &Source::new(fd)?, offset)?;
        map.make_read_only()?;
        Ok(map)
    }

    pub fn map_anon(
        length: usize,
        _stack: bool,
        _populate: bool,
        _huge: Option<u8>,
        _no_reserve: bool,
    ) -> io::Result<MmapInner> {
        MmapInner::zeroed(length)
    }

    pub fn flush(&self, offset: usize, length: usize) -> io::Result<()> {
        self.write_back(offset, length, File::sync_data)
    }

    pub fn flush_async(&self, offset: usize, length: usize) -> io::Result<()> {
        self.write_back(offset, length, |_| Ok(()))
    }

    fn write_back(
        &self,
        offset: usize,
        length: usize,
        finish: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        if offset > self.length || length > self.length - offset {
            return Err(ErrorKind::InvalidInput.into());
        }
        if self.kind != Kind::Shared {
            return Ok(());
        }
        let mut files = shared();
        let Some(shared) = files.get_mut(&self.address.addr()) else { return Ok(()) };
        // SAFETY: the map is mapped until `self` is dropped, and readable whatever its access.
        unsafe { shared.write_back(self.address, offset, offset + length)? };
        finish(&shared.file)
    }

    pub fn make_read_only(&mut self) -> io::Result<()> {
        self.protect(PROT_READ)
    }

    pub fn make_exec(&mut self) -> io::Result<()> {
        self.protect(PROT_READ | PROT_EXEC)
    }

    pub fn make_mut(&mut self) -> io::Result<()> {
        match self.kind {
            Kind::Private => {}
            Kind::ReadOnly => return Err(io::Error::from_raw_os_error(EACCES)),
            Kind::Shared => {
                if let Some(shared) = shared().get_mut(&self.address.addr()) {
                    // SAFETY: the memory is mapped and initialized, and `&mut self` excludes writing.
                    let contents = unsafe { slice::from_raw_parts(self.address, self.length) };
                    // Changes from when it was writable before are not yet written.
                    shared.synced.get_or_insert_with(|| contents.to_vec());
                }
            }
        }
        self.protect(PROT_READ | PROT_WRITE)
    }

    #[inline]
    pub fn ptr(&self) -> *const u8 {
        self.address
    }

    #[inline]
    pub fn mut_ptr(&mut self) -> *mut u8 {
        self.address
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// A copy does not change with its file.
    #[allow(clippy::unnecessary_wraps)]
    pub fn check_safe_to_map(_fd: RawFd, _offset: u64, _length: usize) -> Result<(), crate::MapIfSafeError> {
        Ok(())
    }
}

impl Drop for MmapInner {
    fn drop(&mut self) {
        if self.kind == Kind::Shared {
            let mut files = shared();
            if let Some(mut shared) = files.remove(&self.address.addr()) {
                // SAFETY: the memory is mapped; errors cannot be reported here.
                let _ = unsafe { shared.write_back(self.address, 0, self.length) };
            }
        }
        // SAFETY: `self` has mapped the memory, and nothing uses it any more.
        unsafe { sys_munmap(self.address, self.length.max(1)) };
    }
}

// SAFETY: the memory belongs to the map, and the methods that change it take `&mut self`.
unsafe impl Send for MmapInner {}
// SAFETY: the methods that take `&self` only read the memory, and give out shared references to it.
unsafe impl Sync for MmapInner {}

pub fn file_len(fd: RawFd) -> io::Result<u64> {
    // SAFETY: reads the flags of a descriptor: fails if it is not open.
    check(unsafe { sys_fcntl(fd, F_GETFL, 0) })?;
    // SAFETY: the descriptor is open, and is not closed here.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    Ok(file.metadata()?.len())
}
