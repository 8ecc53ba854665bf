//! ByteAccess of a device that transfers whole sectors only: partial ones are read, changed and written.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::fmt::Debug;

/// A device of sectors. The kernel implements it over [`Block`](crate::block::Block), and waits in it.
pub trait SectorDevice: Debug {
    /// What goes wrong.
    type Error;

    /// ByteAccess of a sector, as this device counts them; always the same.
    fn sector_size(&self) -> usize;

    /// How many sectors there are. This may change.
    fn sector_count(&self) -> u64;

    /// Most bytes of one call; always the same.
    fn max_transfer(&self) -> usize;

    /// Reads a number of whole sectors, at most `max_transfer` bytes.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), Self::Error>;

    /// Writes a number of whole sectors, at most `max_transfer` bytes.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    fn write(&mut self, sector: u64, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError<E> {
    /// That would be behind the end of the device.
    #[error("no space behind the end of the device")]
    NoSpace,
    /// The device says no.
    #[error("{0}")]
    Device(E),
}

/// A device of bytes.
///
/// While a partial sector is written nobody else may write to it: hence `&mut self`.
#[derive(Debug)]
pub struct ByteAccess<D> {
    device: D,
    /// A sector.
    scratch: Vec<u8>,
}

/// What can be done in one call of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    sector: u64,
    /// Where in the sector it begins; not 0 only in a partial one.
    within: usize,
    length: usize,
    is_whole: bool,
}

impl<D: SectorDevice> ByteAccess<D> {
    /// The bytes of a device; `None` if its sizes make no sense or there is no memory for a sector.
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

    /// The device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// How many bytes there are.
    pub fn size(&self) -> u64 {
        self.device.sector_count().saturating_mul(u64::try_from(self.scratch.len()).unwrap_or(u64::MAX))
    }

    /// Reads bytes; how many. It is fewer than fit only at the end of the device, or if an error follows.
    ///
    /// # Errors
    ///
    /// The first sector cannot be read.
    pub fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize, D::Error> {
        let length = self.available(offset, buffer.len());
        transfer(length, |done| {
            let step = self.step(offset, done, length);
            let Some(part) = buffer.get_mut(done..done + step.length) else { return Ok(0) };
            if step.is_whole {
                self.device.read(step.sector, part)?;
            } else {
                self.device.read(step.sector, &mut self.scratch)?;
                part.copy_from_slice(&self.scratch[step.within..step.within + step.length]);
            }
            Ok(step.length)
        })
    }

    /// Writes bytes; how many. It is fewer only at the end of the device, or if an error follows.
    ///
    /// # Errors
    ///
    /// The device ends before `offset`, or the first sector cannot be written.
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, WriteError<D::Error>> {
        let length = self.available(offset, bytes.len());
        if length == 0 && !bytes.is_empty() {
            return Err(WriteError::NoSpace);
        }
        transfer(length, |done| {
            let step = self.step(offset, done, length);
            let Some(part) = bytes.get(done..done + step.length) else { return Ok(0) };
            if step.is_whole {
                self.device.write(step.sector, part)?;
            } else {
                self.device.read(step.sector, &mut self.scratch)?;
                self.scratch[step.within..step.within + step.length].copy_from_slice(part);
                self.device.write(step.sector, &self.scratch)?;
            }
            Ok(step.length)
        })
        .map_err(WriteError::Device)
    }

    /// How many of `length` bytes from `offset` on there are.
    fn available(&self, offset: u64, length: usize) -> usize {
        let left = self.size().saturating_sub(offset);
        usize::try_from(left).unwrap_or(usize::MAX).min(length)
    }

    /// What to do next, when `done` of `length` bytes from `offset` on are done.
    fn step(&self, offset: u64, done: usize, length: usize) -> Step {
        let size = self.scratch.len();
        // Neither overflows nor is cut off: all is inside the device, and the rest is smaller than a sector.
        let size_64 = u64::try_from(size).unwrap_or(u64::MAX);
        let place = offset.saturating_add(u64::try_from(done).unwrap_or(u64::MAX));
        let (sector, within) = (place / size_64, usize::try_from(place % size_64).unwrap_or_default());
        let left = length - done;
        if within == 0 && left >= size {
            let most = left.min(self.device.max_transfer());
            Step { sector, within, length: most - most % size, is_whole: true }
        } else {
            Step { sector, within, length: left.min(size - within), is_whole: false }
        }
    }
}

/// Makes steps until all is done; an error counts only in the first one. Each is told how many bytes are done, and says
/// how many it did.
fn transfer<E>(length: usize, mut step: impl FnMut(usize) -> Result<usize, E>) -> Result<usize, E> {
    let mut done = 0;
    while done < length {
        match step(done) {
            Ok(count @ 1..) => done += count,
            Err(error) if done == 0 => return Err(error),
            Ok(_) | Err(_) => break,
        }
    }
    Ok(done)
}
