//! Devices without hardware: `/dev/null`, `/dev/zero`, `/dev/full` and `/dev/random`.

use core::task::{Context, Poll};

use hermit_abi::{O_RDONLY, O_WRONLY, SEEK_CUR, SEEK_END, SEEK_SET};
use hermit_interface::Errno;

use crate::{ACCESS_MODE, Object, ReadBuffer, Stat};

/// A device without hardware.
#[derive(Clone, Copy, Debug)]
pub enum MemoryDevice {
    /// Reads as an empty file and drops all written bytes.
    Null,
    /// Reads as zeros and drops all written bytes.
    Zero,
    /// Reads as zeros and is always full.
    Full,
    /// Reads as random numbers. The function fills memory with them. Drops all written bytes.
    Random(fn(&mut [u8]) -> Result<(), Errno>),
}

/// `st_mode` of a character device that all users may read and write.
const CHARACTER_DEVICE: u32 = 0o02_0666;

/// Bytes that are read at a time.
const CHUNK: usize = 256;

/// An open [`MemoryDevice`].
#[derive(Debug)]
pub struct MemoryDeviceFile {
    device: MemoryDevice,
    access_mode: i32,
}

impl MemoryDeviceFile {
    /// Opens a device for the access that the `flags` of `open` request.
    #[must_use]
    pub const fn new(device: MemoryDevice, flags: i32) -> Self {
        Self { device, access_mode: flags & ACCESS_MODE }
    }

    fn read(&self, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
        if self.access_mode == O_WRONLY {
            return Err(Errno::EBADF);
        }
        let mut bytes = [0; CHUNK];
        while buffer.room() > 0 {
            match self.device {
                MemoryDevice::Null => return Ok(()),
                MemoryDevice::Zero | MemoryDevice::Full => {}
                MemoryDevice::Random(fill) => fill(&mut bytes)?,
            }
            buffer.append(&bytes);
        }
        Ok(())
    }

    const fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self.device {
            _ if self.access_mode == O_RDONLY => Err(Errno::EBADF),
            MemoryDevice::Full => Err(Errno::ENOSPC),
            _ => Ok(bytes.len()),
        }
    }
}

impl Object for MemoryDeviceFile {
    fn poll_read(&self, _context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        Poll::Ready(self.read(buffer))
    }

    fn poll_write(&self, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        Poll::Ready(self.write(bytes))
    }

    fn poll_read_at(
        &self,
        _context: &mut Context<'_>,
        _offset: u64,
        buffer: &mut ReadBuffer<'_>,
    ) -> Poll<Result<(), Errno>> {
        Poll::Ready(self.read(buffer))
    }

    fn poll_write_at(
        &self,
        _context: &mut Context<'_>,
        _offset: u64,
        bytes: &[u8],
    ) -> Poll<Result<usize, Errno>> {
        Poll::Ready(self.write(bytes))
    }

    /// Succeeds without effect, as on Linux.
    fn seek(&self, _offset: i64, whence: i32) -> Result<u64, Errno> {
        if [SEEK_SET, SEEK_CUR, SEEK_END].contains(&whence) { Ok(0) } else { Err(Errno::EINVAL) }
    }

    fn status_flags(&self) -> i32 {
        self.access_mode
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(Stat { mode: CHARACTER_DEVICE, size: 0, block_size: 4096 })
    }

    fn set_nonblocking(&self, _nonblocking: bool) -> Result<(), Errno> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{MemoryDevice, MemoryDeviceFile};
    use crate::ReadBuffer;
    use core::mem::MaybeUninit;
    use hermit_abi::{O_RDONLY, O_RDWR, O_WRONLY};
    use hermit_interface::Errno;

    fn read(device: MemoryDevice, flags: i32) -> Result<usize, Errno> {
        let mut memory = [MaybeUninit::uninit(); 1000];
        let mut buffer = ReadBuffer::new(&mut memory);
        MemoryDeviceFile::new(device, flags).read(&mut buffer).map(|()| buffer.len())
    }

    #[test]
    fn devices_read_and_write_as_on_linux() {
        let random = MemoryDevice::Random(|_| Ok(()));
        let write = |device| MemoryDeviceFile::new(device, O_RDWR).write(b"bytes");
        for (device, count, written) in [
            (MemoryDevice::Null, 0, Ok(5)),
            (MemoryDevice::Zero, 1000, Ok(5)),
            (MemoryDevice::Full, 1000, Err(Errno::ENOSPC)),
            (random, 1000, Ok(5)),
        ] {
            assert_eq!((read(device, O_RDONLY), write(device)), (Ok(count), written), "{device:?}");
        }
        assert_eq!(read(MemoryDevice::Random(|_| Err(Errno::ENOSYS)), O_RDONLY), Err(Errno::ENOSYS));
    }

    #[test]
    fn access_mode_is_enforced() {
        assert_eq!(read(MemoryDevice::Zero, O_WRONLY), Err(Errno::EBADF));
        assert_eq!(MemoryDeviceFile::new(MemoryDevice::Null, O_RDONLY).write(b""), Err(Errno::EBADF));
    }
}
