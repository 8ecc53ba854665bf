//! Virtio block devices: the disks `/dev/vda` to `/dev/vdz`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Poll;

use hermit_abi::{O_CREAT, O_DIRECTORY, O_EXCL};
use hermit_hal::devices::Allocator;
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::{ACCESS_MODE, BlockFile, Object, Storage, WaitQueue as _};
use hermit_virtio::Id;
use hermit_virtio::block::byte_access::{ByteAccess, SectorDevice, WriteError};
use hermit_virtio::block::{BlockDriver, BlockError, CompletedRequest, SECTOR_SIZE};
use hermit_virtio::virtqueue::Token;

use super::{Pages, Transport, find, install};
use crate::fallible;
use crate::interrupts::InterruptHandler;
use crate::sync::{Mutex, WaitQueue};
use crate::threads::wait::block_on;

/// Maximum number of disks: one for each letter.
pub(super) const MAX_DISKS: usize = 26;

/// Maximum number of requests in flight per disk.
const MAX_REQUESTS: u16 = 1;

/// A disk in use.
#[derive(Debug)]
struct Disk {
    driver: SpinLock<BlockDriver<Transport, Pages>>,
    /// Serialises requests.
    mutex: Mutex,
    /// Threads that wait for the completion of a request.
    waiters: WaitQueue,
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
        let driver = SpinLock::new(driver);
        let disk = install(Disk { driver, mutex: Mutex::new(), waiters: WaitQueue::new() }, line)?;
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
        // The waiters are woken also if the device is broken: completing their requests then fails.
        let _: Result<_, _> = self.driver.lock().interrupt();
        self.waiters.wake();
    }
}

impl Disk {
    /// Submits a request, waits for its completion, and calls `finish` with it if the request was successful. The
    /// caller holds the mutex, so the completion is that of the request.
    fn request<R>(
        &self,
        submit: impl FnOnce(&mut BlockDriver<Transport, Pages>) -> Result<Token, BlockError>,
        finish: impl FnOnce(&CompletedRequest<Pages>) -> R,
    ) -> Result<R, Errno> {
        submit(&mut self.driver.lock()).map_err(|_| Errno::EIO)?;
        let completion = block_on(|context| {
            self.waiters.add(context);
            self.driver.lock().complete().transpose().map_or(Poll::Pending, Poll::Ready)
        });
        let completion = completion.map_err(|_| Errno::EIO)?;
        let result = completion.result().map(|_| finish(&completion)).map_err(|_| Errno::EIO);
        self.driver.lock().release(completion);
        result
    }

    /// Access to the disk by bytes; the caller holds the mutex.
    fn bytes(&'static self) -> Result<ByteAccess<LockedDisk>, Errno> {
        let driver = self.driver.lock();
        let (block_size, max_transfer) = (driver.block_size(), driver.max_transfer());
        drop(driver);
        ByteAccess::new(LockedDisk { disk: self, block_size, max_transfer }).ok_or(Errno::ENOMEM)
    }
}

/// A disk whose mutex is held.
#[derive(Debug)]
struct LockedDisk {
    disk: &'static Disk,
    block_size: usize,
    max_transfer: usize,
}

impl LockedDisk {
    /// Number of 512-byte sectors, the unit of the device, in `blocks` blocks.
    fn sectors_of(&self, blocks: u64) -> u64 {
        blocks.saturating_mul((self.block_size / SECTOR_SIZE) as u64)
    }
}

impl SectorDevice for LockedDisk {
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
        let read = self
            .disk
            .request(|driver| driver.submit_read(start, count), |completion| completion.read(0, buffer))?;
        (read == count * SECTOR_SIZE).then_some(()).ok_or(Errno::EIO)
    }

    fn write(&mut self, sector: u64, bytes: &[u8]) -> Result<(), Errno> {
        let start = self.sectors_of(sector);
        self.disk.request(|driver| driver.submit_write(start, bytes), |_| ())
    }
}

impl Storage for &'static Disk {
    fn size(&self) -> u64 {
        self.driver.lock().capacity().saturating_mul(SECTOR_SIZE as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.mutex.with(|| self.bytes()?.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let written = self.mutex.with(|| Ok(self.bytes()?.write_at(offset, bytes)))?;
        written.map_err(|error| match error {
            WriteError::NoSpace => Errno::ENOSPC,
            WriteError::Device(errno) => errno,
        })
    }

    fn flush(&self) -> Result<(), Errno> {
        self.mutex.with(|| {
            // A device without a cache writes through.
            if !self.driver.lock().has_flush() {
                return Ok(());
            }
            self.request(BlockDriver::submit_flush, |_| ())
        })
    }
}
