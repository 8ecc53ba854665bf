//! The open file of a block device.
//!
//! [`Storage`] is the device, which reads and writes at any byte; [`BlockFile`] adds the semantics of an open
//! file: the position, the access mode and `lseek`. The position is an atomic. A call advances it before it
//! transfers data, so concurrent calls get disjoint ranges without a lock. A call that transfers fewer bytes
//! moves the position back.

use core::fmt::Debug;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll};

use hermit_abi::{O_APPEND, O_RDONLY, O_WRONLY, SEEK_CUR, SEEK_END, SEEK_SET};
use hermit_base::try_alloc::try_vec;
use hermit_interface::Errno;

use crate::{ACCESS_MODE, Object, ReadBuffer, Stat};

/// Byte-addressed persistent storage. Calls block until the device has completed them.
pub trait Storage: Debug + Send + Sync {
    /// Size in bytes.
    fn size(&self) -> u64;

    /// Reads at an offset into `buffer`. Returns the number of bytes. It is smaller than requested at the end
    /// of the storage.
    ///
    /// # Errors
    ///
    /// `EIO`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Writes bytes at an offset. Returns their number. It is smaller than requested at the end of the
    /// storage.
    ///
    /// # Errors
    ///
    /// `EIO`; `ENOSPC` beyond the end.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno>;

    /// Flushes: returns once all completed writes are durable.
    ///
    /// # Errors
    ///
    /// `EIO`.
    fn flush(&self) -> Result<(), Errno>;
}

/// `st_mode` of a block device that its owner may read and write.
const BLOCK_DEVICE: u32 = 0o06_0600;

/// Preferred size of a read or write in bytes (`st_blksize`).
const BLOCK_SIZE: u32 = 4096;

/// Maximum size of one read in bytes: the size of its temporary buffer.
const MAX_READ: usize = 64 << 10;

/// An open block device, with a file position.
#[derive(Debug)]
pub struct BlockFile<S> {
    storage: S,
    /// Access mode, and `O_APPEND`.
    status_flags: i32,
    position: AtomicU64,
}

impl<S: Storage> BlockFile<S> {
    /// Creates an open file, for the access that the `flags` of `open` request. Its position is the first
    /// byte.
    ///
    /// As on Linux, `O_APPEND` and `O_TRUNC` have no effect on a block device.
    pub const fn new(storage: S, flags: i32) -> Self {
        Self { storage, status_flags: flags & (ACCESS_MODE | O_APPEND), position: AtomicU64::new(0) }
    }

    /// Advances the position by up to `size` bytes. Returns the start and size of the range. Concurrent calls
    /// get disjoint ranges.
    fn advance(&self, size: usize) -> (u64, usize) {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        let end = self.storage.size();
        let taken = |position: u64| size.min(end.saturating_sub(position));
        let start = self.position.fetch_update(Relaxed, Relaxed, |position| Some(position + taken(position)));
        let start = start.unwrap_or_else(|position| position);
        (start, usize::try_from(taken(start)).unwrap_or(usize::MAX))
    }

    const fn check_readable(&self) -> Result<(), Errno> {
        if self.status_flags & O_WRONLY != 0 { Err(Errno::EBADF) } else { Ok(()) }
    }

    const fn check_writable(&self) -> Result<(), Errno> {
        if self.status_flags & ACCESS_MODE == O_RDONLY { Err(Errno::EBADF) } else { Ok(()) }
    }

    fn read(&self, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
        self.check_readable()?;
        let (start, size) = self.advance(buffer.room().min(MAX_READ));
        let result = self.copy_from(start, size, buffer);
        self.rewind(start, size, *result.as_ref().unwrap_or(&0));
        result.map(drop)
    }

    /// Appends up to `size` bytes from an offset to `buffer`, which has room for them. Returns their number.
    fn copy_from(&self, start: u64, size: usize, buffer: &mut ReadBuffer<'_>) -> Result<usize, Errno> {
        if size == 0 {
            return Ok(0);
        }
        let mut bytes = try_vec(0, size)?;
        let count = self.storage.read_at(start, &mut bytes)?;
        Ok(buffer.append(bytes.get(..count).unwrap_or_default()))
    }

    fn read_at(&self, offset: u64, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
        self.check_readable()?;
        let size = self.size_at(offset, buffer.room().min(MAX_READ));
        self.copy_from(offset, size, buffer).map(drop)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        self.check_writable()?;
        match self.size_at(offset, bytes.len()) {
            0 if bytes.is_empty() => Ok(0),
            0 => Err(Errno::ENOSPC),
            size => self.storage.write_at(offset, bytes.get(..size).unwrap_or(bytes)),
        }
    }

    /// Limits `size` to the bytes from an offset to the end.
    fn size_at(&self, offset: u64, size: usize) -> usize {
        let rest = self.storage.size().saturating_sub(offset);
        usize::try_from(rest).map_or(size, |rest| size.min(rest))
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.check_writable()?;
        let (start, size) = self.advance(bytes.len());
        if size == 0 && !bytes.is_empty() {
            return Err(Errno::ENOSPC);
        }
        let result = self.storage.write_at(start, bytes.get(..size).unwrap_or(bytes));
        self.rewind(start, size, *result.as_ref().unwrap_or(&0));
        result
    }

    /// Moves the position back after a transfer of only `done` bytes of a range of `size` bytes. Does nothing
    /// if another thread has moved the position since.
    fn rewind(&self, start: u64, size: usize, done: usize) {
        let position_after = |bytes: usize| start.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        // This fails if another thread has moved the position. Then the position stays.
        let _: Result<u64, u64> =
            self.position.compare_exchange(position_after(size), position_after(done), Relaxed, Relaxed);
    }
}

impl<S: Storage + 'static> Object for BlockFile<S> {
    fn poll_read(&self, _context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        Poll::Ready(self.read(buffer))
    }

    fn poll_write(&self, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        Poll::Ready(self.write(bytes))
    }

    fn poll_read_at(
        &self,
        _context: &mut Context<'_>,
        offset: u64,
        buffer: &mut ReadBuffer<'_>,
    ) -> Poll<Result<(), Errno>> {
        Poll::Ready(self.read_at(offset, buffer))
    }

    fn poll_write_at(
        &self,
        _context: &mut Context<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Poll<Result<usize, Errno>> {
        Poll::Ready(self.write_at(offset, bytes))
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

    fn status_flags(&self) -> i32 {
        self.status_flags
    }

    fn stat(&self) -> Result<Stat, Errno> {
        // As on Linux, `st_size` of a block device is 0. Programs find its size by seeking to the end.
        Ok(Stat { mode: BLOCK_DEVICE, size: 0, block_size: BLOCK_SIZE })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{BlockFile, Storage};
    use crate::{Object, ReadBuffer};
    use core::mem::MaybeUninit;
    use core::task::{Context, Poll, Waker};
    use hermit_abi::{O_APPEND, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
    use hermit_interface::Errno;
    use std::sync::Mutex;
    use std::vec::Vec;

    /// Storage whose accesses fail at offsets from `broken` on.
    #[derive(Debug)]
    struct FakeStorage {
        bytes: Mutex<Vec<u8>>,
        broken: usize,
    }

    impl Storage for FakeStorage {
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

    fn file(size: u8, broken: usize, flags: i32) -> BlockFile<FakeStorage> {
        BlockFile::new(FakeStorage { bytes: Mutex::new((0..size).collect()), broken }, flags)
    }

    fn read(file: &BlockFile<FakeStorage>, size: usize) -> Result<Vec<u8>, Errno> {
        let mut memory = std::vec![MaybeUninit::uninit(); size];
        let mut buffer = ReadBuffer::new(&mut memory);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(result) = file.poll_read(&mut context, &mut buffer) else {
            panic!("storage blocks instead of pending")
        };
        let length = buffer.len();
        result.map(|()| {
            // Safe code cannot read the buffer, so compare the storage at the position.
            let bytes = file.storage.bytes.lock().unwrap();
            let end = usize::try_from(file.position.load(core::sync::atomic::Ordering::Relaxed)).unwrap();
            bytes.get(end - length..end).unwrap_or_default().to_vec()
        })
    }

    fn write(file: &BlockFile<FakeStorage>, bytes: &[u8]) -> Result<usize, Errno> {
        match file.poll_write(&mut Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("storage blocks instead of pending"),
        }
    }

    #[test]
    fn read_advances_and_seek_sets_the_position() {
        let file = file(10, 10, O_RDWR);
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
    fn failed_read_does_not_move_the_position() {
        let file = file(10, 6, O_RDWR);
        assert_eq!(read(&file, 8), Ok((0..6).collect()));
        assert_eq!(read(&file, 2), Err(Errno::EIO));
        assert_eq!(file.seek(0, 1), Ok(6));
    }

    #[test]
    fn positional_read_and_write_leave_the_position() {
        let file = file(4, 4, O_RDWR);
        assert_eq!(
            (file.write_at(3, b"xy"), file.write_at(4, b"y"), file.write_at(9, b"")),
            (Ok(1), Err(Errno::ENOSPC), Ok(0))
        );
        assert_eq!(*file.storage.bytes.lock().unwrap(), [0, 1, 2, b'x']);
        let mut memory = [MaybeUninit::uninit(); 8];
        let mut buffer = ReadBuffer::new(&mut memory);
        assert_eq!(
            (file.read_at(1, &mut buffer), file.read_at(4, &mut buffer), buffer.len()),
            (Ok(()), Ok(()), 3)
        );
        assert_eq!(file.seek(0, 1), Ok(0));
    }

    #[test]
    fn write_beyond_the_end_is_truncated_or_enospc() {
        let file = file(4, 4, O_RDWR);
        assert_eq!(file.seek(3, 0), Ok(3));
        assert_eq!(write(&file, b"xy"), Ok(1));
        assert_eq!(write(&file, b"y"), Err(Errno::ENOSPC));
        assert_eq!(write(&file, b""), Ok(0));
        assert_eq!(*file.storage.bytes.lock().unwrap(), [0, 1, 2, b'x']);
    }

    #[test]
    fn access_mode_is_enforced() {
        assert_eq!(write(&file(1, 1, O_RDONLY), b"x"), Err(Errno::EBADF));
        assert_eq!(read(&file(1, 1, O_RDONLY), 1), Ok(std::vec![0]));
        assert_eq!(read(&file(1, 1, O_WRONLY), 1), Err(Errno::EBADF));
        assert_eq!(write(&file(1, 1, O_WRONLY), b"x"), Ok(1));
    }

    #[test]
    fn status_flags_are_those_of_open() {
        for flags in [O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_APPEND] {
            assert_eq!(file(1, 1, flags | O_TRUNC).status_flags(), flags);
        }
    }
}
