//! The virtio entropy device: `/dev/hwrng`, and what the random generator starts from where nothing else is.

use alloc::sync::Arc;
use core::task::{Context, Poll};

use hermit_abi::{O_RDONLY, O_RDWR, O_WRONLY};
use hermit_hal::clock;
use hermit_hal::devices::Allocator;
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::{Object, ReadBuffer, Stat, WaitQueue as _};
use hermit_virtio::Id;
use hermit_virtio::entropy::{Entropy, EntropyError};
use spin::Once;

use super::{Pages, Transport, find, install};
use crate::fallible;
use crate::interrupts::Handler;
use crate::sync::{Mutex, WaitQueue};
use crate::threads::wait::block_on;

/// Most bytes of one request.
const PIECE: usize = 256;

/// How long a device may take when the machine starts, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

/// A character device, readable by its owner (`st_mode`).
const CHARACTER_DEVICE: u32 = 0o02_0400;

/// The device and those who wait for it.
#[derive(Debug)]
struct Source {
    driver: SpinLock<Entropy<Transport, Pages>>,
    turn: Mutex,
    waiters: WaitQueue,
}

static SOURCE: Once<Option<&'static Source>> = Once::new();

/// The device, taken into use the first time.
fn source() -> Option<&'static Source> {
    *SOURCE.call_once(|| {
        let found = find(Id::Rng, 0)?;
        let (transport, line) = found.transport()?;
        let driver = Entropy::new(transport, &Allocator).inspect_err(|error| found.warn(error)).ok()?;
        let driver = SpinLock::new(driver);
        install(Source { driver, turn: Mutex::new(), waiters: WaitQueue::new() }, line)
    })
}

impl Handler for Source {
    fn interrupt(&self) {
        // If it is broken, those who wait find out.
        let _: Result<_, _> = self.driver.lock().interrupt();
        self.waiters.wake();
    }
}

impl Source {
    /// Waits for some bytes; says how many.
    fn read(&self, bytes: &mut [u8]) -> Result<usize, EntropyError> {
        self.turn.with(|| {
            match self.driver.lock().request(bytes.len()) {
                // The answer to a request that came too late for whoever made it.
                Ok(()) | Err(EntropyError::Busy) => {}
                Err(error) => return Err(error),
            }
            block_on(|context| {
                self.waiters.add(context);
                self.try_complete(bytes)
            })
        })
    }

    fn try_complete(&self, bytes: &mut [u8]) -> Poll<Result<usize, EntropyError>> {
        self.driver.lock().complete(bytes).transpose().map_or(Poll::Pending, Poll::Ready)
    }

    /// Waits for some bytes before there are threads, until a moment.
    fn read_early(&self, bytes: &mut [u8], deadline: u64) -> Option<usize> {
        self.driver.lock().request(bytes.len()).ok()?;
        loop {
            match self.try_complete(bytes) {
                Poll::Ready(result) => return result.ok(),
                Poll::Pending if clock::monotonic() < deadline => core::hint::spin_loop(),
                Poll::Pending => return None,
            }
        }
    }
}

/// Fills a seed from the device before there are threads; `false` if there is none, or it does not answer.
pub(crate) fn seed(seed: &mut [u8]) -> bool {
    let Some(source) = source() else { return false };
    let deadline = clock::monotonic() + PATIENCE;
    let mut filled = 0;
    while let Some(rest) = seed.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let Some(count) = source.read_early(rest, deadline) else { return false };
        filled += count;
    }
    true
}

/// The device as a file.
#[derive(Debug)]
struct File(&'static Source);

impl Object for File {
    fn poll_read(&self, _context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        let mut bytes = [0; PIECE];
        let piece = bytes.get_mut(..buffer.room().min(PIECE)).unwrap_or_default();
        if piece.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let result = self.0.read(piece).map_err(|_| Errno::EIO);
        Poll::Ready(result.map(|count| {
            buffer.append(piece.get(..count).unwrap_or_default());
        }))
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(Stat { mode: CHARACTER_DEVICE, size: 0, block_size: 4096 })
    }
}

/// Opens the device.
pub(super) fn open(flags: i32) -> Result<Arc<dyn Object>, Errno> {
    if flags & (O_WRONLY | O_RDWR) != O_RDONLY {
        return Err(Errno::EACCES);
    }
    let source = source().ok_or(Errno::ENOENT)?;
    let file: Arc<dyn Object> = fallible::arc(File(source)).ok_or(Errno::ENOMEM)?;
    Ok(file)
}
