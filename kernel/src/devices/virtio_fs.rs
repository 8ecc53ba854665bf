//! Virtio-fs devices: folders of the host.

use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::task::{Context, Poll};

use hermit_fuse_client::{Request, ServedReply, Tag};
use hermit_hal::devices::{Allocator, Pages};
use hermit_hal::sync::{RawSpinLock, SpinLock};
use hermit_hal::{clock, memory};
use hermit_interface::{Errno, to_usize};
use hermit_virtio::Id;
use hermit_virtio::fs::{FsDriver, FsError, ServedRequest, Ticket};

use super::{DiscoveredDevice, Transport, find, start};
use crate::interrupts::InterruptHandler;
use crate::sync::Mutex;

/// Maximum size in bytes of the data of a request. The servers accept twice as much. With the larger size
/// uhyve is faster, but virtiofsd under QEMU's TCG is much slower, for an unknown reason.
const MAX_DATA: usize = 512 << 10;

/// Minimum of the maximum size in bytes, for machines with little memory.
const MIN_DATA: usize = 16 << 10;

/// The data of one request may take at most the free memory divided by this.
const MEMORY_SHARE: u64 = 128;

type Driver = FsDriver<Transport, Pages>;

/// A device in use.
#[derive(Debug)]
struct FsDevice {
    driver: SpinLock<Driver>,
    max_data: usize,
}

/// The devices that [`start_all`] has initialised, in the order of discovery. `None` stands for a device that
/// cannot be used.
static DEVICES: SpinLock<Vec<Option<&'static FsDevice>>> = SpinLock::new(Vec::new());

/// Serialises initialisation of devices.
static INIT_MUTEX: Mutex = Mutex::new();

/// Connection to the FUSE server of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FuseTransport(&'static FsDevice);

impl FuseTransport {
    /// Finds the device with a tag among the devices that [`start_all`] has initialised.
    pub(crate) fn find(tag: &[u8]) -> Option<Self> {
        let has_tag = |device: &&FsDevice| device.driver.lock().tag() == tag;
        (0..).map_while(|index| DEVICES.lock().get(index).copied()).flatten().find(has_tag).map(Self)
    }

    /// Returns true if both refer to the same device.
    pub(crate) fn is_same(self, other: Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

/// Initialises all devices. Prints a warning for each device that cannot be used, and leaves it out.
///
/// # Errors
///
/// `ENOMEM`. Another call continues with the device for which there was no memory.
pub(crate) fn start_all() -> Result<(), Errno> {
    INIT_MUTEX.with(|| {
        let first = DEVICES.lock().len();
        for index in first.. {
            let device = match find(Id::Fs, index) {
                Err(Errno::ENOENT) => break,
                device => device?,
            };
            // The memory is reserved before the driver starts, because a driver is never removed.
            DEVICES.lock().try_reserve(1)?;
            let started = match start_device(device) {
                Err(Errno::ENOMEM) => return Err(Errno::ENOMEM),
                started => started.ok(),
            };
            DEVICES.lock().push(started);
        }
        Ok(())
    })
}

fn start_device(device: &DiscoveredDevice) -> Result<&'static FsDevice, Errno> {
    let share = to_usize(memory::available() / MEMORY_SHARE).clamp(MIN_DATA, MAX_DATA);
    let max_data = 1 << share.ilog2();
    start(device, |transport, memory| {
        let driver = SpinLock::new(Driver::new(transport, memory, max_data)?);
        Ok(FsDevice { driver, max_data })
    })
}

impl FsDevice {
    /// Wakes the tasks whose replies have arrived, and the tasks that can now submit a request. Each task is
    /// woken without the lock.
    fn wake(&self) {
        let next = || self.driver.lock().next_waker();
        while let Some(waker) = next() {
            waker.wake();
        }
    }
}

impl InterruptHandler for FsDevice {
    fn interrupt(&self) {
        self.driver.lock().interrupt();
        self.wake();
    }
}

impl hermit_fuse_client::Transport for FuseTransport {
    type Reply = Reply;
    type RawLock = RawSpinLock;

    fn now(&self) -> u64 {
        clock::monotonic()
    }

    fn max_data(&self) -> usize {
        self.0.max_data
    }

    fn min_data(&self) -> usize {
        Driver::INLINE_DATA
    }

    fn submit(&self, context: &Context<'_>, request: &Request<'_>) -> Poll<Result<NonZeroU64, Errno>> {
        // The memory is allocated without the lock, which masks interrupts.
        let plan = self.0.driver.lock().plan(request);
        if let Some(plan) = plan {
            let buffer = plan.allocate(&Allocator);
            self.0.driver.lock().add(buffer);
        }
        let reserved = self.0.driver.lock().reserve(request, context.waker());
        // The data are also copied without the lock.
        let filled = reserved.map(|reserved| reserved.fill(request));
        let submitted = filled.and_then(|filled| self.0.driver.lock().submit(filled));
        if submitted.is_err() {
            // Other tasks may wait for the resources that this task has given back or does not need.
            self.0.wake();
        }
        match submitted {
            Ok(ticket) => Poll::Ready(Ok(ticket.number())),
            Err(FsError::Busy) => Poll::Pending,
            Err(FsError::OutOfMemory) => Poll::Ready(Err(Errno::ENOMEM)),
            Err(FsError::Device(_)) => Poll::Ready(Err(Errno::EIO)),
        }
    }

    fn poll(&self, context: &Context<'_>, request: NonZeroU64) -> Poll<Result<Reply, Errno>> {
        let ticket = Ticket::from_number(request).ok_or(Errno::EIO)?;
        let served = self.0.driver.lock().take(ticket, context.waker());
        served
            .map(|served| served.map(Reply))
            .map_err(|_| Errno::EIO)
            .transpose()
            .map_or(Poll::Pending, Poll::Ready)
    }

    fn release(&self, reply: Reply) {
        self.0.driver.lock().release(reply.0);
        self.0.wake();
    }

    fn send(&self, message: &[u8], has_reply: bool) {
        let is_wake_due = self.0.driver.lock().send(message, has_reply);
        if is_wake_due {
            self.0.wake();
        }
    }

    fn sent(&self) -> u64 {
        self.0.driver.lock().sent()
    }

    fn poll_handled(&self, context: &Context<'_>, count: u64) -> Poll<()> {
        let progress = self.0.driver.lock().poll_handled(count, context.waker());
        // Wake tasks only after progress. The caller's own waker may be among the wakers to be woken, so
        // without progress the caller would poll again and again.
        if progress.is_wake_due {
            self.0.wake();
        }
        if progress.is_handled { Poll::Ready(()) } else { Poll::Pending }
    }

    fn reclaim(&self) {
        // Each block is freed without the lock.
        let next = || self.0.driver.lock().take_unused();
        while next().is_some() {}
    }

    fn is_stopped(&self) -> bool {
        self.0.driver.lock().is_stopped()
    }

    fn stop(&self) {
        self.0.driver.lock().stop();
        self.0.wake();
    }
}

/// A reply in the device's memory.
#[derive(Debug)]
pub(crate) struct Reply(ServedRequest<Pages>);

impl ServedReply for Reply {
    fn tag(&self) -> Tag {
        self.0.tag()
    }

    fn size(&self) -> usize {
        self.0.len()
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> usize {
        self.0.read(offset, bytes)
    }
}
