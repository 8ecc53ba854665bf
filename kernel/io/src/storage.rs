//! A file over storage of bytes: what opening a block device gives.

use alloc::vec::Vec;
use core::fmt::Debug;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll};

use hermit_abi::{SEEK_CUR, SEEK_END, SEEK_SET};
use hermit_interface::Errno;

use crate::{Object, ReadBuffer, Stat};

/// Bytes that stay. Calls wait until they have been served.
pub trait Storage: Debug + Send + Sync {
    /// How many bytes there are.
    fn size(&self) -> u64;

    /// Fills `buffer` with bytes from an offset on; says how many, which are fewer at the end.
    ///
    /// # Errors
    ///
    /// `EIO`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Writes bytes at an offset; says how many, which are fewer at the end.
    ///
    /// # Errors
    ///
    /// `EIO`, `ENOSPC` behind the end.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno>;

    /// Returns once everything that has been written stays whatever happens.
    ///
    /// # Errors
    ///
    /// `EIO`.
    fn flush(&self) -> Result<(), Errno>;
}

/// A block device, readable and writable by its owner (`st_mode`).
const BLOCK_DEVICE: u32 = 0o06_0600;

/// Bytes per read or write that suit storage.
const BLOCK_SIZE: u32 = 4096;

/// Most bytes of one read, which needs as much memory meanwhile.
const PIECE: usize = 64 << 10;

/// What may be done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessMode {
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
}

/// An open block device.
#[derive(Debug)]
pub struct BlockFile<S> {
    storage: S,
    access: AccessMode,
    position: AtomicU64,
}

impl<S: Storage> BlockFile<S> {
    /// A file that starts at the first byte.
    pub const fn new(storage: S, access: AccessMode) -> Self {
        Self { storage, access, position: AtomicU64::new(0) }
    }

    /// Takes up to `size` bytes from the position on, so that of two threads each has its own; where they start.
    fn advance(&self, size: usize) -> (u64, usize) {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        let end = self.storage.size();
        let taken = |position: u64| size.min(end.saturating_sub(position));
        let start = self.position.fetch_update(Relaxed, Relaxed, |position| Some(position + taken(position)));
        let start = start.unwrap_or_else(|position| position);
        (start, usize::try_from(taken(start)).unwrap_or(usize::MAX))
    }

    fn read(&self, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
        if !self.access.read {
            return Err(Errno::EBADF);
        }
        let (start, size) = self.advance(buffer.room().min(PIECE));
        if size == 0 {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(size).map_err(|_| Errno::ENOMEM);
        bytes.resize(if room.is_ok() { size } else { 0 }, 0);
        let result = room.and_then(|()| self.storage.read_at(start, &mut bytes));
        let count = *result.as_ref().unwrap_or(&0);
        self.go_back(start, size, count);
        buffer.append(bytes.get(..count).unwrap_or_default());
        result.map(drop)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        if !self.access.write {
            return Err(Errno::EBADF);
        }
        let (start, size) = self.advance(bytes.len());
        if size == 0 && !bytes.is_empty() {
            return Err(Errno::ENOSPC);
        }
        let result = self.storage.write_at(start, bytes.get(..size).unwrap_or(bytes));
        self.go_back(start, size, *result.as_ref().unwrap_or(&0));
        result
    }

    /// Takes back what was not read or written, unless somebody has changed the position meanwhile.
    fn go_back(&self, start: u64, size: usize, done: usize) {
        let place = |bytes: usize| start.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        // Who changed it knows where it is.
        let _: Result<u64, u64> = self.position.compare_exchange(place(size), place(done), Relaxed, Relaxed);
    }
}

impl<S: Storage + 'static> Object for BlockFile<S> {
    fn poll_read(&self, _context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        Poll::Ready(self.read(buffer))
    }

    fn poll_write(&self, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        Poll::Ready(self.write(bytes))
    }

    fn seek(&self, offset: i64, whence: i32) -> Result<u64, Errno> {
        let base = match whence {
            SEEK_SET => 0,
            SEEK_CUR => self.position.load(Relaxed),
            SEEK_END => self.storage.size(),
            _ => return Err(Errno::EINVAL),
        };
        let position = base.checked_add_signed(offset).filter(|&position| i64::try_from(position).is_ok());
        let position = position.ok_or(Errno::EINVAL)?;
        self.position.store(position, Relaxed);
        Ok(position)
    }

    fn sync(&self) -> Result<(), Errno> {
        self.storage.flush()
    }

    fn stat(&self) -> Result<Stat, Errno> {
        // The size of a device is not that of a file: whoever wants it seeks to the end, as on Linux.
        Ok(Stat { mode: BLOCK_DEVICE, size: 0, block_size: BLOCK_SIZE })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{AccessMode, BlockFile, Storage};
    use crate::{Object, ReadBuffer};
    use core::mem::MaybeUninit;
    use core::task::{Context, Poll, Waker};
    use hermit_interface::Errno;
    use std::sync::Mutex;
    use std::vec::Vec;

    /// Storage that fails for offsets from `broken` on.
    #[derive(Debug)]
    struct Fake {
        bytes: Mutex<Vec<u8>>,
        broken: usize,
    }

    impl Storage for Fake {
        fn size(&self) -> u64 {
            self.bytes.lock().unwrap().len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
            let (bytes, offset) = (self.bytes.lock().unwrap(), usize::try_from(offset).unwrap());
            let end = bytes.len().min(self.broken).min(offset + buffer.len());
            if offset >= self.broken {
                return Err(Errno::EIO);
            }
            buffer[..end - offset].copy_from_slice(&bytes[offset..end]);
            Ok(end - offset)
        }

        fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
            let offset = usize::try_from(offset).unwrap();
            self.bytes.lock().unwrap()[offset..offset + bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&self) -> Result<(), Errno> {
            Ok(())
        }
    }

    const BOTH: AccessMode = AccessMode { read: true, write: true };

    fn file(size: u8, broken: usize, access: AccessMode) -> BlockFile<Fake> {
        BlockFile::new(Fake { bytes: Mutex::new((0..size).collect()), broken }, access)
    }

    fn read(file: &BlockFile<Fake>, size: usize) -> Result<Vec<u8>, Errno> {
        let mut memory = std::vec![MaybeUninit::uninit(); size];
        let mut buffer = ReadBuffer::new(&mut memory);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(result) = file.poll_read(&mut context, &mut buffer) else {
            panic!("storage waits itself")
        };
        let length = buffer.len();
        result.map(|()| {
            // What was added is initialised; this test may copy it only through another file.
            let bytes = file.storage.bytes.lock().unwrap();
            let end = usize::try_from(file.position.load(core::sync::atomic::Ordering::Relaxed)).unwrap();
            bytes.get(end - length..end).unwrap_or_default().to_vec()
        })
    }

    fn write(file: &BlockFile<Fake>, bytes: &[u8]) -> Result<usize, Errno> {
        match file.poll_write(&mut Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("storage waits itself"),
        }
    }

    #[test]
    fn reading_goes_on_where_it_ended() {
        let file = file(10, 10, BOTH);
        assert_eq!(read(&file, 4), Ok(std::vec![0, 1, 2, 3]));
        assert_eq!(read(&file, 100), Ok((4..10).collect()));
        assert_eq!(read(&file, 1), Ok(Vec::new()));
        assert_eq!(file.seek(-3, 2), Ok(7));
        assert_eq!(read(&file, 2), Ok(std::vec![7, 8]));
        assert_eq!(file.seek(-1, 1), Ok(8));
        assert_eq!(file.seek(-9, 1), Err(Errno::EINVAL));
        assert_eq!(file.seek(0, 9), Err(Errno::EINVAL));
        assert_eq!(file.seek(50, 0), Ok(50));
        assert_eq!(read(&file, 1), Ok(Vec::new()));
    }

    #[test]
    fn a_failure_does_not_move_the_position() {
        let file = file(10, 6, BOTH);
        assert_eq!(read(&file, 8), Ok((0..6).collect()));
        assert_eq!(read(&file, 2), Err(Errno::EIO));
        assert_eq!(file.seek(0, 1), Ok(6));
    }

    #[test]
    fn storage_does_not_grow() {
        let file = file(4, 4, BOTH);
        assert_eq!(file.seek(3, 0), Ok(3));
        assert_eq!(write(&file, b"xy"), Ok(1));
        assert_eq!(write(&file, b"y"), Err(Errno::ENOSPC));
        assert_eq!(write(&file, b""), Ok(0));
        assert_eq!(*file.storage.bytes.lock().unwrap(), [0, 1, 2, b'x']);
    }

    #[test]
    fn rights_are_kept() {
        assert_eq!(write(&file(1, 1, AccessMode { read: true, write: false }), b"x"), Err(Errno::EBADF));
        assert_eq!(read(&file(1, 1, AccessMode { read: false, write: true }), 1), Err(Errno::EBADF));
    }
}
