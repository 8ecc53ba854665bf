//! Device configuration of a block device and the limits that follow from it (virtio 1.2, section 5.2.4).

use virtio_spec::blk::F;

use super::{BlockError, MAX_TRANSFER, SECTOR_SIZE};
use crate::device::{Device, InitError};
use crate::transport::Transport;

/// Offsets of fields in the configuration.
mod field {
    pub(super) const CAPACITY: usize = 0;
    pub(super) const SIZE_MAX: usize = 8;
    pub(super) const SEG_MAX: usize = 12;
    pub(super) const BLOCK_SIZE: usize = 20;
}

/// Descriptors of a request for header and status.
const HEADER_AND_STATUS: u16 = 2;

/// Limits of the device's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceLimits {
    /// Number of sectors of 512 bytes.
    pub(super) capacity: u64,
    pub(super) is_read_only: bool,
    pub(super) has_flush: bool,
    /// Block size in bytes, a power of two.
    pub(super) block_size: usize,
    /// Maximum size of a data descriptor, in bytes.
    pub(super) segment_size: usize,
    /// Maximum number of data descriptors.
    segments: u16,
    /// Maximum size of a request's data, in bytes.
    max_transfer: usize,
}

impl DeviceLimits {
    /// Reads the configuration. A field is valid only if its feature was negotiated.
    pub(super) fn read<T: Transport>(device: &Device<T>) -> Result<Self, InitError> {
        let features = F::from(device.features());
        let field = |feature, offset, default| {
            if features.contains(feature) {
                device.config(|config| config.read_u32(offset))
            } else {
                Ok(default)
            }
        };
        let block_size = usize::try_from(field(F::BLK_SIZE, field::BLOCK_SIZE, 512)?).unwrap_or(usize::MAX);
        let segment_size =
            usize::try_from(field(F::SIZE_MAX, field::SIZE_MAX, u32::MAX)?).unwrap_or(usize::MAX);
        let segments = u16::try_from(field(F::SEG_MAX, field::SEG_MAX, u32::MAX)?).unwrap_or(u16::MAX);
        if !block_size.is_power_of_two()
            || !(SECTOR_SIZE..=MAX_TRANSFER).contains(&block_size)
            || segment_size == 0
        {
            return Err(InitError::InvalidConfig);
        }
        // A few devices report a `seg_max` of 0. They do transfer data, so 0 counts as 1.
        let limits = Self {
            capacity: Self::read_capacity(device)?,
            is_read_only: features.contains(F::RO),
            has_flush: features.contains(F::FLUSH),
            block_size,
            segment_size: segment_size.min(MAX_TRANSFER),
            segments: segments.max(1),
            max_transfer: 0,
        };
        limits.for_queue(u16::MAX)
    }

    /// Reads the capacity.
    pub(super) fn read_capacity<T: Transport>(device: &Device<T>) -> Result<u64, InitError> {
        device.config(|config| config.read_u64(field::CAPACITY))
    }

    /// Applies the limit of a virtqueue of `size` descriptors. Fails if the queue cannot hold a request of
    /// one block.
    pub(super) fn for_queue(self, size: u16) -> Result<Self, InitError> {
        let segments = self.segments.min(size.saturating_sub(HEADER_AND_STATUS));
        let bytes = self.segment_size.saturating_mul(segments.into()).min(MAX_TRANSFER);
        let max_transfer = bytes - bytes % self.block_size;
        if max_transfer == 0 {
            return Err(InitError::InvalidConfig);
        }
        Ok(Self { segments, max_transfer, ..self })
    }

    /// Maximum size of a request's data, in bytes.
    pub(super) const fn max_transfer(&self) -> usize {
        self.max_transfer
    }

    /// Maximum number of descriptors of a request.
    pub(super) fn descriptors(&self) -> u16 {
        let segments = self.max_transfer.div_ceil(self.segment_size);
        u16::try_from(segments).unwrap_or(u16::MAX).saturating_add(HEADER_AND_STATUS)
    }

    /// Checks a request against the limits.
    pub(super) fn check(&self, sector: u64, length: usize) -> Result<(), BlockError> {
        let first_byte = usize::try_from(sector % 128).unwrap_or_default() * SECTOR_SIZE;
        let is_aligned = length.is_multiple_of(self.block_size) && first_byte.is_multiple_of(self.block_size);
        if length == 0 || length > self.max_transfer || !is_aligned {
            return Err(BlockError::Size);
        }
        let count = u64::try_from(length / SECTOR_SIZE).map_err(|_| BlockError::Size)?;
        let end = sector.checked_add(count).ok_or(BlockError::OutOfRange)?;
        if end > self.capacity { Err(BlockError::OutOfRange) } else { Ok(()) }
    }
}
