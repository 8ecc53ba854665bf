//! Disks: `/dev/vda` and so on.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Poll;

use hermit_abi::{O_CREAT, O_DIRECTORY, O_EXCL, O_RDWR, O_WRONLY};
use hermit_hal::devices::Allocator;
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::{AccessMode, BlockFile, Object, Storage, WaitQueue as _};
use hermit_virtio::Id;
use hermit_virtio::block::byte_access::{ByteAccess, SectorDevice, WriteError};
use hermit_virtio::block::{Block, BlockError, Completion, SECTOR_SIZE};
use hermit_virtio::virtqueue::Token;

use super::{Pages, Transport, find, install};
use crate::fallible;
use crate::interrupts::Handler;
use crate::sync::{Mutex, WaitQueue};
use crate::threads::wait::block_on;

/// Most disks that have names.
const MAX_DISKS: usize = 26;

/// Requests that a disk serves at a time.
const REQUESTS: u16 = 1;

/// A disk and those who wait for it.
#[derive(Debug)]
struct Disk {
    driver: SpinLock<Block<Transport, Pages>>,
    /// Requests are served one after the other.
    turn: Mutex,
    waiters: WaitQueue,
}

/// The disks that have been opened.
static DISKS: SpinLock<Vec<(usize, &'static Disk)>> = SpinLock::new(Vec::new());

/// Held while a disk is taken into use.
static OPENING: Mutex = Mutex::new();

/// The number of a disk with this name.
pub(super) fn number(name: &[u8]) -> Option<usize> {
    match name {
        [b'v', b'd', letter @ b'a'..=b'z'] => Some(usize::from(letter - b'a')),
        _ => None,
    }
}

/// The disk of this number, taken into use the first time.
fn disk(number: usize) -> Option<&'static Disk> {
    let known = || DISKS.lock().iter().find(|(other, _)| *other == number).map(|(_, disk)| *disk);
    OPENING.with(|| {
        if let Some(disk) = known() {
            return Some(disk);
        }
        let found = find(Id::Block, number).filter(|_| number < MAX_DISKS)?;
        let (transport, line) = found.transport()?;
        let driver =
            Block::new(transport, &Allocator, REQUESTS).inspect_err(|error| found.warn(error)).ok()?;
        let driver = SpinLock::new(driver);
        let disk = install(Disk { driver, turn: Mutex::new(), waiters: WaitQueue::new() }, line)?;
        let mut disks = DISKS.lock();
        disks.try_reserve(1).ok()?;
        disks.push((number, disk));
        Some(disk)
    })
}

/// Opens a disk.
pub(super) fn open(number: usize, flags: i32) -> Result<Arc<dyn Object>, Errno> {
    if flags & O_DIRECTORY != 0 {
        return Err(Errno::ENOTDIR);
    }
    let disk = disk(number).ok_or(Errno::ENOENT)?;
    if flags & O_CREAT != 0 && flags & O_EXCL != 0 {
        return Err(Errno::EEXIST);
    }
    let rights = AccessMode { read: flags & O_WRONLY == 0, write: flags & (O_WRONLY | O_RDWR) != 0 };
    if rights.write && disk.driver.lock().is_read_only() {
        return Err(Errno::EACCES);
    }
    let file: Arc<dyn Object> = fallible::arc(BlockFile::new(disk, rights)).ok_or(Errno::ENOMEM)?;
    Ok(file)
}

impl Handler for Disk {
    fn interrupt(&self) {
        // If it is broken, those who wait find out.
        let _: Result<_, _> = self.driver.lock().interrupt();
        self.waiters.wake();
    }
}

impl Disk {
    /// Has the device do something and waits for it; then calls `finish` with the result.
    fn request<R>(
        &self,
        submit: impl FnOnce(&mut Block<Transport, Pages>) -> Result<Token, BlockError>,
        finish: impl FnOnce(&Completion<Pages>) -> R,
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

    /// Bytes of the disk, for its turn.
    fn bytes(&'static self) -> Result<ByteAccess<InTurn>, Errno> {
        let driver = self.driver.lock();
        let (block_size, max_transfer) = (driver.block_size(), driver.max_transfer());
        drop(driver);
        ByteAccess::new(InTurn { disk: self, block_size, max_transfer }).ok_or(Errno::ENOMEM)
    }
}

/// A disk whose turn the owner has.
#[derive(Debug)]
struct InTurn {
    disk: &'static Disk,
    block_size: usize,
    max_transfer: usize,
}

impl InTurn {
    /// A number of blocks in the sectors that the device counts.
    fn sectors_of(&self, block: u64) -> u64 {
        block.saturating_mul((self.block_size / SECTOR_SIZE) as u64)
    }
}

impl SectorDevice for InTurn {
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
        self.turn.with(|| self.bytes()?.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let written = self.turn.with(|| Ok(self.bytes()?.write_at(offset, bytes)))?;
        written.map_err(|error| match error {
            WriteError::NoSpace => Errno::ENOSPC,
            WriteError::Device(errno) => errno,
        })
    }

    fn flush(&self) -> Result<(), Errno> {
        self.turn.with(|| {
            // Without a cache there is nothing to do.
            if !self.driver.lock().has_flush() {
                return Ok(());
            }
            self.request(Block::submit_flush, |_| ())
        })
    }
}
