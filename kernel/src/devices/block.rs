//! Virtio block devices: the disks `/dev/vda` to `/dev/vdz`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

use hermit_abi::{O_CREAT, O_DIRECTORY, O_EXCL};
use hermit_hal::devices::{Allocator, Pages};
use hermit_hal::memory;
use hermit_hal::sync::SpinLock;
use hermit_interface::{Errno, to_usize};
use hermit_io::{ACCESS_MODE, BlockFile, Object, Storage, WaitQueue as _};
use hermit_virtio::Id;
use hermit_virtio::block::byte_access::{ByteAccess, SectorDevice, WriteError, transfer_all};
use hermit_virtio::block::{BlockDriver, BlockError, CompletedRequest, MAX_TRANSFER, SECTOR_SIZE, Ticket};

use super::{Transport, find, install};
use crate::fallible;
use crate::interrupts::InterruptHandler;
use crate::sync::{Mutex, WaitQueue};
use crate::threads::schedule;
use crate::threads::wait::block_on;

/// Maximum number of disks: one for each letter.
pub(super) const MAX_DISKS: usize = 26;

/// Maximum number of requests in flight per disk. Each has a buffer of [`MAX_TRANSFER`] bytes, allocated when so many
/// requests are first in flight.
const MAX_REQUESTS: u16 = 64;

/// Part of the free memory that the buffer of one more request may take.
const MEMORY_SHARE: u64 = 128;

/// Size in bytes of the regions of a disk that are written by one thread at a time. They hold whole blocks.
const REGION_SIZE: u64 = MAX_TRANSFER as u64;

/// Number of locks for regions.
const REGION_LOCKS: usize = 64;

type Driver = BlockDriver<Transport, Pages>;

/// A disk in use.
#[derive(Debug)]
struct Disk {
    driver: SpinLock<Driver>,
    /// Threads that wait until they can submit a request.
    waiters: WaitQueue,
    /// Serialise writes to a region: a write of a part of a block reads the block, and writes it back. Regions whose
    /// numbers are equal modulo [`REGION_LOCKS`] share a lock.
    regions: [Mutex; REGION_LOCKS],
}

/// Disks in use, with their indices.
static DISKS: SpinLock<Vec<(usize, &'static Disk)>> = SpinLock::new(Vec::new());

/// Serialises initialisation of disks.
static INIT_MUTEX: Mutex = Mutex::new();

/// The disk with an index; the first call initialises it.
fn disk(index: usize) -> Option<&'static Disk> {
    let in_use = || DISKS.lock().iter().find(|(other, _)| *other == index).map(|(_, disk)| *disk);
    INIT_MUTEX.with(|| {
        if let Some(disk) = in_use() {
            return Some(disk);
        }
        let device = find(Id::Block, index).filter(|_| index < MAX_DISKS)?;
        let (transport, line) = device.transport()?;
        let driver = BlockDriver::new(transport, &Allocator, MAX_REQUESTS)
            .inspect_err(|error| device.warn(error))
            .ok()?;
        let regions = [const { Mutex::new() }; REGION_LOCKS];
        let disk = Disk { driver: SpinLock::new(driver), waiters: WaitQueue::new(), regions };
        let disk = install(disk, line)?;
        let mut disks = DISKS.lock();
        disks.try_reserve(1).ok()?;
        disks.push((index, disk));
        Some(disk)
    })
}

/// Opens the disk with an index.
pub(super) fn open(index: usize, flags: i32) -> Result<Arc<dyn Object>, Errno> {
    if flags & O_DIRECTORY != 0 {
        return Err(Errno::ENOTDIR);
    }
    let disk = disk(index).ok_or(Errno::ENOENT)?;
    if flags & O_CREAT != 0 && flags & O_EXCL != 0 {
        return Err(Errno::EEXIST);
    }
    if flags & ACCESS_MODE != 0 && disk.driver.lock().is_read_only() {
        return Err(Errno::EACCES);
    }
    let file: Arc<dyn Object> = fallible::arc(BlockFile::new(disk, flags)).ok_or(Errno::ENOMEM)?;
    Ok(file)
}

impl InterruptHandler for Disk {
    fn interrupt(&self) {
        let has_failed = self.driver.lock().interrupt().is_err();
        // Each is woken without the driver's lock.
        let next = || self.driver.lock().next_waker();
        while let Some(waker) = next() {
            waker.wake();
        }
        if has_failed {
            // Their submissions fail.
            self.waiters.wake();
        }
    }
}

impl Disk {
    /// Submits a request, waits for its completion, and calls `finish` with it if the request was successful.
    fn request<R>(
        &self,
        submit: impl Fn(&mut Driver, &Waker) -> Result<Ticket, BlockError>,
        finish: impl FnOnce(&CompletedRequest<Pages>) -> R,
    ) -> Result<R, Errno> {
        let ticket = self.submit(submit).map_err(|_| Errno::EIO)?;
        let completion = block_on(|context| {
            let served = self.driver.lock().take(ticket, context.waker());
            served.transpose().map_or(Poll::Pending, Poll::Ready)
        });
        let completion = completion.map_err(|_| Errno::EIO)?;
        let result = completion.result().map(|_| finish(&completion)).map_err(|_| Errno::EIO);
        self.driver.lock().release(completion);
        self.waiters.wake_one();
        result
    }

    /// Submits a request, and waits for buffers if need be. A thread that comes later may get them first.
    fn submit(
        &self,
        submit: impl Fn(&mut Driver, &Waker) -> Result<Ticket, BlockError>,
    ) -> Result<Ticket, BlockError> {
        let submitted = submit(&mut self.driver.lock(), schedule::current().waker());
        if !matches!(submitted, Err(BlockError::Busy)) {
            return submitted;
        }
        self.add_buffer();
        block_on(|context| {
            // First, so that a release after a vain attempt wakes this thread.
            self.waiters.add(context);
            let submitted = submit(&mut self.driver.lock(), context.waker());
            if matches!(submitted, Err(BlockError::Busy)) {
                return Poll::Pending;
            }
            // A wake-up that this thread does not need is for the next one.
            if !self.waiters.remove(context) || submitted.is_err() {
                self.waiters.wake_one();
            }
            Poll::Ready(submitted)
        })
    }

    /// Adds buffers for another request, if the queue has room for it and the machine the memory: for the first that waits.
    fn add_buffer(&self) {
        if memory::available() / MEMORY_SHARE < MAX_TRANSFER as u64 {
            return;
        }
        let plan = self.driver.lock().plan();
        if let Some(plan) = plan {
            let buffer = plan.allocate(&Allocator);
            let has_buffer = buffer.is_some();
            self.driver.lock().add(buffer);
            if has_buffer {
                self.waiters.wake_one();
            }
        }
    }

    /// Access to the disk by bytes.
    fn bytes(&'static self) -> Result<ByteAccess<DiskSectors>, Errno> {
        let driver = self.driver.lock();
        let (block_size, max_transfer) = (driver.block_size(), driver.max_transfer());
        drop(driver);
        ByteAccess::new(DiskSectors { disk: self, block_size, max_transfer }).ok_or(Errno::ENOMEM)
    }

    /// The lock of the region with the byte at an offset.
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
    /// Number of 512-byte sectors, the unit of the device, in `blocks` blocks.
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
        self.disk.driver.lock().capacity() / self.sectors_of(1).max(1)
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
        self.driver.lock().capacity().saturating_mul(SECTOR_SIZE as u64)
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
        // A device without a cache writes through.
        if !self.driver.lock().has_flush() {
            return Ok(());
        }
        self.request(BlockDriver::submit_flush, |_| ())
    }
}
