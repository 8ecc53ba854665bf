//! The virtio entropy device. It is `/dev/hwrng`, and also provides the seed of the random number generator
//! if the machine has no other source.

use alloc::sync::Arc;
use core::task::{Context, Poll};

use hermit_abi::O_RDONLY;
use hermit_hal::clock;
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::{ACCESS_MODE, Object, ReadBuffer, Stat};
use hermit_virtio::Id;
use hermit_virtio::entropy::{EntropyDriver, EntropyError};

use super::{Pages, Transport, find, start};
use crate::fallible;
use crate::interrupts::InterruptHandler;
use crate::sync::{Mutex, OnceLock, WaitQueue};
use crate::threads::wait::block_until;

/// Maximum number of bytes per request.
const MAX_READ_SIZE: usize = 256;

/// Timeout of the wait for a seed, in nanoseconds.
const SEED_TIMEOUT: u64 = 1_000_000_000;

/// A character device, readable by its owner (`st_mode`).
const CHARACTER_DEVICE: u32 = 0o02_0400;

/// The device in use.
#[derive(Debug)]
struct EntropyDevice {
    driver: SpinLock<EntropyDriver<Transport, Pages>>,
    /// Serialises requests.
    mutex: Mutex,
    /// Threads that wait for the completion of a request.
    waiters: WaitQueue,
}

static DEVICE: OnceLock<Option<&'static EntropyDevice>> = OnceLock::new();

/// Returns the device. The first call that has enough memory initialises it.
///
/// # Errors
///
/// `ENOENT` if there is none, `ENOMEM`.
fn device() -> Result<&'static EntropyDevice, Errno> {
    let device = DEVICE.get_or_try_init(|| match start_first() {
        Err(Errno::ENOMEM) => Err(Errno::ENOMEM),
        started => Ok(started.ok()),
    });
    (*device?).ok_or(Errno::ENOENT)
}

fn start_first() -> Result<&'static EntropyDevice, Errno> {
    let device = find(Id::Rng, 0)?;
    start(device, |transport, memory| {
        let driver = SpinLock::new(EntropyDriver::new(transport, memory)?);
        Ok(EntropyDevice { driver, mutex: Mutex::new(), waiters: WaitQueue::new() })
    })
}

impl InterruptHandler for EntropyDevice {
    fn interrupt(&self) {
        // The waiters are woken even if the device is broken. Then their requests fail.
        let _: Result<_, _> = self.driver.lock().interrupt();
        self.waiters.wake();
    }
}

impl EntropyDevice {
    /// Waits for random bytes. Returns their number, which is at least 1 and at most the length of `bytes`.
    /// Returns `None` at the deadline, a time of the monotonic clock.
    fn read(&self, bytes: &mut [u8], deadline: Option<u64>) -> Option<Result<usize, EntropyError>> {
        self.mutex.with(|| {
            match self.driver.lock().request(bytes.len()) {
                // `Busy` means that an earlier request, which was not answered in time, is still in flight.
                // Its bytes can be used, too.
                Ok(()) | Err(EntropyError::Busy) => {}
                Err(error) => return Some(Err(error)),
            }
            block_until(deadline, |context| {
                self.waiters.add(context);
                self.driver.lock().complete(bytes).transpose().map_or(Poll::Pending, Poll::Ready)
            })
        })
    }
}

/// Fills a seed. Returns false if there is no device, or if it does not answer in time.
///
/// # Errors
///
/// `ENOMEM` if there is no memory for the device.
pub(crate) fn seed(seed: &mut [u8]) -> Result<bool, Errno> {
    let device = match device() {
        Ok(device) => device,
        Err(Errno::ENOMEM) => return Err(Errno::ENOMEM),
        Err(_) => return Ok(false),
    };
    let deadline = clock::monotonic() + SEED_TIMEOUT;
    let mut filled = 0;
    while let Some(rest) = seed.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let Some(Ok(count)) = device.read(rest, Some(deadline)) else { return Ok(false) };
        filled += count;
    }
    Ok(true)
}

/// The open file of `/dev/hwrng`.
#[derive(Debug)]
struct File(&'static EntropyDevice);

impl Object for File {
    fn poll_read(&self, _context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        let mut bytes = [0; MAX_READ_SIZE];
        let chunk = bytes.get_mut(..buffer.room().min(MAX_READ_SIZE)).unwrap_or_default();
        if chunk.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let result = self.0.read(chunk, None).ok_or(Errno::EIO).and_then(|read| read.map_err(|_| Errno::EIO));
        Poll::Ready(result.map(|count| {
            buffer.append(chunk.get(..count).unwrap_or_default());
        }))
    }

    fn poll_read_at(
        &self,
        context: &mut Context<'_>,
        _offset: u64,
        buffer: &mut ReadBuffer<'_>,
    ) -> Poll<Result<(), Errno>> {
        self.poll_read(context, buffer)
    }

    fn status_flags(&self) -> i32 {
        O_RDONLY
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(Stat { mode: CHARACTER_DEVICE, size: 0, block_size: 4096 })
    }
}

/// Opens `/dev/hwrng`.
pub(super) fn open(flags: i32) -> Result<Arc<dyn Object>, Errno> {
    if flags & ACCESS_MODE != O_RDONLY {
        return Err(Errno::EACCES);
    }
    let device = device()?;
    let file: Arc<dyn Object> = fallible::arc(File(device)).ok_or(Errno::ENOMEM)?;
    Ok(file)
}
