//! Byte-granular reads and writes on a device with whole sectors; a partial sector is written by
//! read-modify-write.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::fmt::Debug;

/// A device that transfers whole sectors. The kernel implements it over
/// [`BlockDriver`](crate::block::BlockDriver); its calls block.
pub trait SectorDevice: Debug {
    /// Error of a transfer.
    type Error;

    /// Size of a sector in bytes; constant.
    fn sector_size(&self) -> usize;

    /// Number of sectors. It may change.
    fn sector_count(&self) -> u64;

    /// Maximum size of one transfer in bytes; constant.
    fn max_transfer(&self) -> usize;

    /// Reads whole sectors, at most `max_transfer` bytes.
    ///
    /// # Errors
    ///
    /// The sectors cannot be read.
    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), Self::Error>;

    /// Writes whole sectors, at most `max_transfer` bytes.
    ///
    /// # Errors
    ///
    /// The sectors cannot be written.
    fn write(&mut self, sector: u64, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError<E> {
    /// The offset is at or beyond the end of the device.
    #[error("no space beyond the end of the device")]
    NoSpace,
    /// The device failed the transfer.
    #[error("{0}")]
    Device(E),
}

/// Access to a sector device at any byte.
///
/// A partial sector is written by read-modify-write. The caller must exclude other writes to this sector
/// meanwhile, including those by other values of this type for the same device.
#[derive(Debug)]
pub struct ByteAccess<D> {
    device: D,
    /// Buffer of one sector, for partial sectors.
    scratch: Vec<u8>,
}

/// One transfer: whole sectors, or a part of one sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    sector: u64,
    /// Offset in the first sector; 0 for whole sectors.
    within: usize,
    length: usize,
    is_whole: bool,
}

impl<D: SectorDevice> ByteAccess<D> {
    /// Wraps a device. Returns `None` if the device's sizes are invalid, or if there is no memory for a
    /// sector.
    pub fn new(device: D) -> Option<Self> {
        let size = device.sector_size();
        if size == 0 || device.max_transfer() < size {
            return None;
        }
        let mut scratch = Vec::new();
        scratch.try_reserve_exact(size).ok()?;
        scratch.resize(size, 0);
        Some(Self { device, scratch })
    }

    /// The wrapped device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Size of the device in bytes.
    pub fn size(&self) -> u64 {
        self.device.sector_count().saturating_mul(u64::try_from(self.scratch.len()).unwrap_or(u64::MAX))
    }

    /// Reads bytes. Returns the number of bytes read. It is less than the size of `buffer` only at the end of
    /// the device, or if a transfer after the first one fails.
    ///
    /// # Errors
    ///
    /// The first transfer fails.
    pub fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize, D::Error> {
        let length = self.available(offset, buffer.len());
        transfer_all(length, |done| {
            let transfer = self.next_transfer(offset, done, length);
            let Some(part) = buffer.get_mut(done..done + transfer.length) else { return Ok(0) };
            if transfer.is_whole {
                self.device.read(transfer.sector, part)?;
            } else {
                self.device.read(transfer.sector, &mut self.scratch)?;
                part.copy_from_slice(&self.scratch[transfer.within..transfer.within + transfer.length]);
            }
            Ok(transfer.length)
        })
    }

    /// Writes bytes. Returns the number of bytes written. It is less than the size of `bytes` only at the end
    /// of the device, or if a transfer after the first one fails.
    ///
    /// # Errors
    ///
    /// `offset` is at or beyond the end of the device, or the first transfer fails.
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, WriteError<D::Error>> {
        let length = self.available(offset, bytes.len());
        if length == 0 && !bytes.is_empty() {
            return Err(WriteError::NoSpace);
        }
        transfer_all(length, |done| {
            let transfer = self.next_transfer(offset, done, length);
            let Some(part) = bytes.get(done..done + transfer.length) else { return Ok(0) };
            if transfer.is_whole {
                self.device.write(transfer.sector, part)?;
            } else {
                self.device.read(transfer.sector, &mut self.scratch)?;
                self.scratch[transfer.within..transfer.within + transfer.length].copy_from_slice(part);
                self.device.write(transfer.sector, &self.scratch)?;
            }
            Ok(transfer.length)
        })
        .map_err(WriteError::Device)
    }

    /// Number of bytes between `offset` and the end of the device, at most `length`.
    fn available(&self, offset: u64, length: usize) -> usize {
        let left = self.size().saturating_sub(offset);
        usize::try_from(left).unwrap_or(usize::MAX).min(length)
    }

    /// The next transfer, once `done` of the `length` bytes at `offset` have been transferred.
    fn next_transfer(&self, offset: u64, done: usize, length: usize) -> Transfer {
        let size = self.scratch.len();
        // Neither overflows nor truncates: the range is inside the device, and the remainder is less than a
        // sector.
        let size_64 = u64::try_from(size).unwrap_or(u64::MAX);
        let position = offset.saturating_add(u64::try_from(done).unwrap_or(u64::MAX));
        let (sector, within) = (position / size_64, usize::try_from(position % size_64).unwrap_or_default());
        let left = length - done;
        if within == 0 && left >= size {
            let limit = left.min(self.device.max_transfer());
            Transfer { sector, within, length: limit - limit % size, is_whole: true }
        } else {
            Transfer { sector, within, length: left.min(size - within), is_whole: false }
        }
    }
}

/// Calls `transfer` until `length` bytes are transferred. Returns the number of bytes transferred. `transfer`
/// receives the number of bytes done so far, and returns how many more it has transferred: 0 at the end of
/// the device.
///
/// # Errors
///
/// The error of the first transfer. An error of a later transfer only ends the loop.
pub fn transfer_all<E>(
    length: usize,
    mut transfer: impl FnMut(usize) -> Result<usize, E>,
) -> Result<usize, E> {
    let mut done = 0;
    while done < length {
        match transfer(done) {
            Ok(count @ 1..) => done += count,
            Err(error) if done == 0 => return Err(error),
            Ok(_) | Err(_) => break,
        }
    }
    Ok(done)
}
