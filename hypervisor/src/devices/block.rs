//! The block device (virtio 1.2 §5.2): a raw file as a disk.

mod config;
mod disk_file;
pub(crate) mod lock;
mod request;

use std::fs::File;
use std::{io, mem};

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP,
};
use virtio_bindings::virtio_ids::VIRTIO_ID_BLOCK;
use virtio_queue::Queue;
use vm_memory::GuestMemoryMmap;

pub use self::config::SECTOR_SIZE;
use self::config::{DEVICE_ID, QUEUE_SIZES};
use self::disk_file::DiskFile;
use self::request::{BlockOperation, BlockRequest};
use super::rate_limiter::RateLimiter;
use super::virtio::chain::{Chain, Completion, serve_limited_chains};
use super::virtio::{DeviceError, HostEvent, QueueProgress, VirtioDevice, read_window};
use super::warn_once::WarnOnce;

/// A virtio block device on a raw file of constant size.
#[derive(Debug)]
pub struct Block {
    disk: DiskFile,
    is_read_only: bool,
    /// Write-through mode: the driver has not negotiated `VIRTIO_BLK_F_FLUSH`, so a write must reach stable
    /// storage before it completes (virtio 1.2 §5.2.6.2).
    is_write_through: bool,
    limiter: RateLimiter,
    invalid_request: WarnOnce,
    host_failure: WarnOnce,
}

/// Reason why a request fails.
#[derive(Debug, thiserror::Error)]
enum BlockRequestError {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(&'static str),
    /// The device does not support requests of this type.
    #[error("request of unknown type {0}")]
    Unsupported(u32),
    /// The host's file I/O or the access to guest memory fails.
    #[error(transparent)]
    Host(#[from] DeviceError),
}

impl Block {
    /// Creates a disk as large as `file`, rounded down to whole sectors. The device moves the file's offset
    /// and relies on the file's size, so no other code should change these.
    ///
    /// # Errors
    ///
    /// The size of the file cannot be determined.
    pub fn new(file: File, is_read_only: bool) -> io::Result<Self> {
        Ok(Self {
            disk: DiskFile::new(file)?,
            is_read_only,
            is_write_through: false,
            limiter: RateLimiter::default(),
            invalid_request: WarnOnce::default(),
            host_failure: WarnOnce::default(),
        })
    }

    /// Returns the disk with rate limits for bytes and requests.
    #[must_use]
    pub fn with_limiter(self, limiter: RateLimiter) -> Self {
        Self { limiter, ..self }
    }

    /// Executes the request in `chain` and writes its status byte. Returns the number of bytes written to the
    /// chain.
    fn handle(&mut self, chain: Chain, memory: &GuestMemoryMmap) -> Result<u32, DeviceError> {
        let mut request = BlockRequest::parse(chain, memory)?;
        let (status, written) = match self.execute(&request.operation, memory) {
            Ok(written) => (VIRTIO_BLK_S_OK, written),
            Err(error) => (self.fail(&error), 0),
        };
        let [status, ..] = status.to_le_bytes();
        request.status.write(memory, &[status])?;
        Ok(written.saturating_add(1))
    }

    /// Executes an operation. Returns the number of bytes written to its data buffers.
    fn execute(
        &self,
        operation: &BlockOperation,
        memory: &GuestMemoryMmap,
    ) -> Result<u32, BlockRequestError> {
        match operation {
            BlockOperation::Read { sector, data } => {
                let offset = self.disk.offset(*sector, data.length())?;
                self.disk.read(offset, data, memory)?;
                Ok(u32::try_from(data.length()).unwrap_or(u32::MAX))
            }
            BlockOperation::Write { .. } if self.is_read_only => {
                Err(BlockRequestError::Invalid("write to a read-only disk"))
            }
            BlockOperation::Write { sector, data } => {
                let offset = self.disk.offset(*sector, data.length())?;
                self.disk.write(offset, data, memory)?;
                if self.is_write_through {
                    self.disk.flush()?;
                }
                Ok(0)
            }
            BlockOperation::Flush => Ok(self.disk.flush().map(|()| 0)?),
            BlockOperation::GetId { data } => {
                let written = data.clone().write(memory, &DEVICE_ID)?;
                Ok(u32::try_from(written).unwrap_or(u32::MAX))
            }
            BlockOperation::Unsupported { request_type } => {
                Err(BlockRequestError::Unsupported(*request_type))
            }
            BlockOperation::Invalid(reason) => Err(BlockRequestError::Invalid(reason)),
        }
    }

    /// Logs a warning about a failed request, and returns its status byte.
    fn fail(&mut self, error: &BlockRequestError) -> u32 {
        let (warning, status) = match error {
            BlockRequestError::Invalid(_) => (&mut self.invalid_request, VIRTIO_BLK_S_IOERR),
            BlockRequestError::Unsupported(_) => (&mut self.invalid_request, VIRTIO_BLK_S_UNSUPP),
            BlockRequestError::Host(_) => (&mut self.host_failure, VIRTIO_BLK_S_IOERR),
        };
        warning.warn(format_args!("disk: {error}"));
        status
    }
}

impl VirtioDevice for Block {
    fn device_type(&self) -> u32 {
        VIRTIO_ID_BLOCK
    }

    fn features(&self) -> u64 {
        config::features(self.is_read_only)
    }

    fn activate(&mut self, features: u64) {
        self.is_write_through = features & 1 << VIRTIO_BLK_F_FLUSH == 0;
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &QUEUE_SIZES
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        read_window(&config::config_space(self.disk.sectors()), offset, data);
    }

    fn process(
        &mut self,
        _index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<QueueProgress, DeviceError> {
        let mut limiter = mem::take(&mut self.limiter);
        let progress = serve_limited_chains(queue, memory, &mut limiter, |chain| {
            let work = chain.length();
            let written = self.handle(chain, memory)?;
            Ok(Completion { written, work })
        });
        self.limiter = limiter;
        progress
    }

    fn is_output(&self, _index: usize) -> bool {
        true
    }

    fn host_event(&self, _index: usize) -> Option<HostEvent> {
        self.limiter.timer()
    }

    fn lift_limits(&mut self) {
        self.limiter.lift();
    }
}

#[cfg(test)]
mod tests;
