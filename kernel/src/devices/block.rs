//! Virtio block devices: the disks `/dev/vda` to `/dev/vdz`.
//!
//! The first open of a disk starts its driver. A request needs a buffer of the driver, so the number of
//! buffers limits the number of requests in flight. At first, there is one buffer. A thread that finds no
//! free buffer adds one if the limit of [`MAX_REQUESTS`] and the free memory allow this, and then waits. A
//! semaphore has a permit for each buffer, and gives the buffers to threads in the order of their arrival.
//!
//! A disk is written in whole blocks. A write of a part of a block reads the block, changes it and writes it
//! back. Two such writes to the same block must not overlap, so a lock for each region of the disk serialises
//! them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

use hermit_abi::{O_CREAT, O_DIRECTORY, O_EXCL};
use hermit_base::wait::{Acquisition, Semaphore};
use hermit_hal::devices::{Allocator, Pages};
use hermit_hal::memory;
use hermit_hal::sync::SpinLock;
use hermit_interface::{Errno, to_usize};
use hermit_io::{ACCESS_MODE, BlockFile, Object, Storage};
use hermit_virtio::Id;
use hermit_virtio::block::byte_access::{ByteAccess, SectorDevice, WriteError, transfer_all};
use hermit_virtio::block::{BlockDriver, BlockError, CompletedRequest, MAX_TRANSFER, SECTOR_SIZE, Ticket};

use super::{Transport, find, start};
use crate::fallible;
use crate::interrupts::InterruptHandler;
use crate::sync::Mutex;
use crate::threads::schedule;
use crate::threads::wait::block_on;

/// Maximum number of disks: one for each letter.
pub(super) const MAX_DISKS: usize = 26;

/// Maximum number of requests in flight per disk. Each request has a buffer of [`MAX_TRANSFER`] bytes. A
/// buffer is allocated when the requests in flight first need it.
const MAX_REQUESTS: u16 = 64;

/// A new buffer may take at most the free memory divided by this.
const MEMORY_SHARE: u64 = 128;

/// Size in bytes of a region of a disk. Only one thread at a time writes to a region. A region consists of
/// whole blocks.
const REGION_SIZE: u64 = MAX_TRANSFER as u64;

/// Number of locks for regions.
const REGION_LOCKS: usize = 64;

type Driver = BlockDriver<Transport, Pages>;

/// A disk in use.
#[derive(Debug)]
struct Disk {
    requests: SpinLock<Requests>,
    /// Locks that serialise writes to a region. Regions whose numbers are equal modulo [`REGION_LOCKS`] share
    /// a lock.
    regions: [Mutex; REGION_LOCKS],
}

/// The driver, and the permits to submit requests.
#[derive(Debug)]
struct Requests {
    driver: Driver,
    /// Semaphore with a permit for each buffer of the driver. A thread acquires a permit before it submits a
    /// request, and keeps it until it has released the buffer. So the driver always has a buffer for the
    /// request.
    buffers: Semaphore,
}

/// Disks in use, with their indices.
static DISKS: SpinLock<Vec<(usize, &'static Disk)>> = SpinLock::new(Vec::new());

/// Serialises initialisation of disks.
static INIT_MUTEX: Mutex = Mutex::new();

/// Returns the disk with an index. The first call initialises it.
///
/// # Errors
///
/// `ENOENT` if there is none, `ENOMEM`.
fn disk(index: usize) -> Result<&'static Disk, Errno> {
    let in_use = || DISKS.lock().iter().find(|(other, _)| *other == index).map(|(_, disk)| *disk);
    INIT_MUTEX.with(|| {
        if let Some(disk) = in_use() {
            return Ok(disk);
        }
        if index >= MAX_DISKS {
            return Err(Errno::ENOENT);
        }
        // The memory is reserved before the driver starts, because a driver is never removed.
        DISKS.lock().try_reserve(1)?;
        let device = find(Id::Block, index)?;
        let disk = start(device, |transport, memory| {
            let driver = BlockDriver::new(transport, memory, MAX_REQUESTS)?;
            // The driver begins with one buffer, so the semaphore begins with one permit.
            let requests = Requests { driver, buffers: Semaphore::new(1) };
            Ok(Disk { requests: SpinLock::new(requests), regions: [const { Mutex::new() }; REGION_LOCKS] })
        })?;
        DISKS.lock().push((index, disk));
        Ok(disk)
    })
}

/// Opens the disk with an index.
pub(super) fn open(index: usize, flags: i32) -> Result<Arc<dyn Object>, Errno> {
    if flags & O_DIRECTORY != 0 {
        return Err(Errno::ENOTDIR);
    }
    let disk = disk(index)?;
    if flags & O_CREAT != 0 && flags & O_EXCL != 0 {
        return Err(Errno::EEXIST);
    }
    if flags & ACCESS_MODE != 0 && disk.requests.lock().driver.is_read_only() {
        return Err(Errno::EACCES);
    }
    let file: Arc<dyn Object> = fallible::arc(BlockFile::new(disk, flags)).ok_or(Errno::ENOMEM)?;
    Ok(file)
}

impl InterruptHandler for Disk {
    fn interrupt(&self) {
        let has_failed = self.requests.lock().driver.interrupt().is_err();
        // Each task is woken without the driver's lock.
        let next = || self.requests.lock().driver.next_waker();
        while let Some(waker) = next() {
            waker.wake();
        }
        if has_failed {
            self.close();
        }
    }
}

impl Disk {
    /// Submits a request and waits for its completion. If the request was successful, calls `finish` with the
    /// completion.
    fn request<R>(
        &self,
        submit: impl Fn(&mut Driver, &Waker) -> Result<Ticket, BlockError>,
        finish: impl FnOnce(&CompletedRequest<Pages>) -> R,
    ) -> Result<R, Errno> {
        let ticket = self.submit(submit).map_err(|_| Errno::EIO)?;
        let completion = block_on(|context| {
            let served = self.requests.lock().driver.take(ticket, context.waker());
            served.transpose().map_or(Poll::Pending, Poll::Ready)
        });
        // If the wait fails, the device has failed, and the buffer of the request is lost with it.
        let completion = completion.map_err(|_| Errno::EIO)?;
        let result = completion.result().map(|_| finish(&completion)).map_err(|_| Errno::EIO);
        self.release(|driver| driver.release(completion));
        result
    }

    /// Waits for a buffer, and submits a request. Threads get buffers in the order of their arrival.
    fn submit(
        &self,
        submit: impl Fn(&mut Driver, &Waker) -> Result<Ticket, BlockError>,
    ) -> Result<Ticket, BlockError> {
        let mut acquisition = Acquisition::default();
        let mut poll = |waker: &Waker| {
            let requests = &mut *self.requests.lock();
            let acquired = requests.buffers.poll_acquire(&mut acquisition, waker);
            acquired.map(|()| submit(&mut requests.driver, waker))
        };
        let submitted = match poll(schedule::current().waker()) {
            Poll::Ready(submitted) => submitted,
            Poll::Pending => {
                self.add_buffer();
                block_on(|context| poll(context.waker()))
            }
        };
        match submitted {
            Err(BlockError::Device(_)) => self.close(),
            Err(_) => self.release(|_| ()),
            Ok(_) => {}
        }
        submitted
    }

    /// Adds a buffer for the thread that has waited longest. Does so only if the queue has room for another
    /// request and the machine has enough memory.
    fn add_buffer(&self) {
        if memory::available() / MEMORY_SHARE < MAX_TRANSFER as u64 {
            return;
        }
        let plan = self.requests.lock().driver.plan();
        if let Some(plan) = plan {
            match plan.allocate(&Allocator) {
                Some(buffer) => self.release(|driver| driver.add(Some(buffer))),
                None => self.requests.lock().driver.add(None),
            }
        }
    }

    /// Returns a buffer to the driver, and passes the permit to the thread that has waited longest.
    fn release(&self, release: impl FnOnce(&mut Driver)) {
        let mut requests = self.requests.lock();
        release(&mut requests.driver);
        let next = requests.buffers.release();
        drop(requests);
        next.into_iter().for_each(Waker::wake);
    }

    /// Called when the device has failed. Lets all waiting threads submit their requests, which then fail,
    /// too.
    #[cold]
    fn close(&self) {
        let waiters = self.requests.lock().buffers.close();
        waiters.wake();
    }

    /// Returns a view of the disk that can be accessed at any byte.
    fn bytes(&'static self) -> Result<ByteAccess<DiskSectors>, Errno> {
        let requests = self.requests.lock();
        let (block_size, max_transfer) = (requests.driver.block_size(), requests.driver.max_transfer());
        drop(requests);
        ByteAccess::new(DiskSectors { disk: self, block_size, max_transfer }).ok_or(Errno::ENOMEM)
    }

    /// Returns the lock of the region that contains the byte at an offset.
    fn region(&self, offset: u64) -> &Mutex {
        let [first, ..] = &self.regions;
        let number = to_usize(offset / REGION_SIZE % REGION_LOCKS as u64);
        self.regions.get(number).unwrap_or(first)
    }
}

/// A disk as a device of whole sectors.
#[derive(Debug)]
struct DiskSectors {
    disk: &'static Disk,
    block_size: usize,
    max_transfer: usize,
}

impl DiskSectors {
    /// Converts a number of blocks to a number of 512-byte sectors, the unit of the device.
    fn sectors_of(&self, blocks: u64) -> u64 {
        blocks.saturating_mul((self.block_size / SECTOR_SIZE) as u64)
    }
}

impl SectorDevice for DiskSectors {
    type Error = Errno;

    fn sector_size(&self) -> usize {
        self.block_size
    }

    fn sector_count(&self) -> u64 {
        self.disk.requests.lock().driver.capacity() / self.sectors_of(1).max(1)
    }

    fn max_transfer(&self) -> usize {
        self.max_transfer
    }

    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        let (start, count) = (self.sectors_of(sector), buffer.len() / SECTOR_SIZE);
        let read = self.disk.request(
            |driver, waker| driver.submit_read(start, count, waker),
            |completion| completion.read(0, buffer),
        )?;
        (read == count * SECTOR_SIZE).then_some(()).ok_or(Errno::EIO)
    }

    fn write(&mut self, sector: u64, bytes: &[u8]) -> Result<(), Errno> {
        let start = self.sectors_of(sector);
        self.disk.request(|driver, waker| driver.submit_write(start, bytes, waker), |_| ())
    }
}

impl Storage for &'static Disk {
    fn size(&self) -> u64 {
        self.requests.lock().driver.capacity().saturating_mul(SECTOR_SIZE as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.bytes()?.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let mut access = self.bytes()?;
        let written = transfer_all(bytes.len(), |done| {
            let position = offset.saturating_add(done as u64);
            let rest = bytes.get(done..).unwrap_or_default();
            let size = rest.len().min(to_usize(REGION_SIZE - position % REGION_SIZE));
            self.region(position).with(|| access.write_at(position, rest.get(..size).unwrap_or(rest)))
        });
        written.map_err(|error| match error {
            WriteError::NoSpace => Errno::ENOSPC,
            WriteError::Device(errno) => errno,
        })
    }

    fn flush(&self) -> Result<(), Errno> {
        // A device without `FLUSH` has no write cache, so completed writes are already durable.
        if !self.requests.lock().driver.has_flush() {
            return Ok(());
        }
        self.request(BlockDriver::submit_flush, |_| ())
    }
}
