//! The block device (virtio 1.2, section 5.2): a raw file as a disk.

mod disk;
mod request;
use std::fs::File;
use std::io;

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX,
    VIRTIO_BLK_ID_BYTES, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP,
};
use virtio_bindings::virtio_ids::VIRTIO_ID_BLOCK;
use virtio_queue::Queue;
use vm_memory::GuestMemoryMmap;

use self::disk::Disk;
use self::request::{Operation, Request};
use super::report::Once;
use super::virtio::chain::{Answer, Chain, serve_chains};
use super::virtio::{DeviceError, Served, VirtioDevice, read_window};

/// Most descriptors of the queue.
const QUEUE_SIZES: [u16; 1] = [128];

/// Unit of sizes and positions on the disk, in bytes.
pub const SECTOR: u32 = 512;

/// Most buffers of data in a request: a header and a status come with them.
const MAX_SEGMENTS: u32 = QUEUE_SIZES[0] as u32 - 2;

/// Most bytes of a buffer of data.
const MAX_SEGMENT: u32 = 128 * 1024;

/// Most bytes of data in a request, about 16 MiB. A driver that keeps to the other two limits never has more.
const MAX_DATA: u32 = MAX_SEGMENTS * MAX_SEGMENT;

/// The device's serial number, filled up with zeros.
const SERIAL: [u8; VIRTIO_BLK_ID_BYTES as usize] = *b"uhyve-block\0\0\0\0\0\0\0\0\0";

/// A disk behind a raw file, whose size never changes.
#[derive(Debug)]
pub struct Block {
    disk: Disk,
    is_read_only: bool,
    /// The driver does not flush: what is written must stay before it hears of it (virtio 1.2, section 5.2.6.2).
    writes_through: bool,
    bad_request: Once,
    bad_host: Once,
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// It makes no sense.
    #[error("{0}")]
    Request(&'static str),
    /// There is no such kind of request.
    #[error("request of unknown type {0}")]
    Unsupported(u32),
    /// The host cannot do it.
    #[error(transparent)]
    Host(#[from] DeviceError),
}

impl Block {
    /// A disk as large as `file`, in whole sectors. Nobody else should use the file's position or change its size.
    ///
    /// # Errors
    ///
    /// The file's size cannot be found out.
    pub fn new(file: File, is_read_only: bool) -> io::Result<Self> {
        let disk = Disk::new(file)?;
        Ok(Self {
            disk,
            is_read_only,
            writes_through: false,
            bad_request: Once::default(),
            bad_host: Once::default(),
        })
    }

    /// Carries out a request. Returns how many bytes it has written into the chain.
    fn answer(&mut self, chain: Chain, memory: &GuestMemoryMmap) -> Result<u32, DeviceError> {
        let mut request = Request::parse(chain, memory)?;
        let (status, written) = match self.execute(&request.operation, memory) {
            Ok(written) => (VIRTIO_BLK_S_OK, written),
            Err(failure) => (self.report(&failure), 0),
        };
        let [status, ..] = status.to_le_bytes();
        request.status.write(memory, &[status])?;
        Ok(written.saturating_add(1))
    }

    /// Returns how many bytes it has written into the data's buffers.
    fn execute(&self, operation: &Operation, memory: &GuestMemoryMmap) -> Result<u32, Failure> {
        match operation {
            Operation::Read { sector, data } => {
                let position = self.disk.position(*sector, data.length())?;
                self.disk.read(position, data, memory)?;
                Ok(u32::try_from(data.length()).unwrap_or(u32::MAX))
            }
            Operation::Write { .. } if self.is_read_only => {
                Err(Failure::Request("write to a read-only disk"))
            }
            Operation::Write { sector, data } => {
                let position = self.disk.position(*sector, data.length())?;
                self.disk.write(position, data, memory)?;
                if self.writes_through {
                    self.disk.flush()?;
                }
                Ok(0)
            }
            Operation::Flush => Ok(self.disk.flush().map(|()| 0)?),
            Operation::Identify { data } => {
                let written = data.clone().write(memory, &SERIAL)?;
                Ok(u32::try_from(written).unwrap_or(u32::MAX))
            }
            Operation::Unknown { kind } => Err(Failure::Unsupported(*kind)),
            Operation::Malformed(what) => Err(Failure::Request(what)),
        }
    }

    /// The status that the guest gets.
    fn report(&mut self, failure: &Failure) -> u32 {
        let (complaint, status) = match failure {
            Failure::Request(_) => (&mut self.bad_request, VIRTIO_BLK_S_IOERR),
            Failure::Unsupported(_) => (&mut self.bad_request, VIRTIO_BLK_S_UNSUPP),
            Failure::Host(_) => (&mut self.bad_host, VIRTIO_BLK_S_IOERR),
        };
        complaint.warn(format_args!("disk: {failure}"));
        status
    }
}

impl VirtioDevice for Block {
    fn device_type(&self) -> u32 {
        VIRTIO_ID_BLOCK
    }

    fn features(&self) -> u64 {
        let always = 1 << VIRTIO_BLK_F_SIZE_MAX
            | 1 << VIRTIO_BLK_F_SEG_MAX
            | 1 << VIRTIO_BLK_F_BLK_SIZE
            | 1 << VIRTIO_BLK_F_FLUSH;
        always | u64::from(self.is_read_only) << VIRTIO_BLK_F_RO
    }

    fn activate(&mut self, features: u64) {
        self.writes_through = features & 1 << VIRTIO_BLK_F_FLUSH == 0;
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &QUEUE_SIZES
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        // Section 5.2.4: capacity, size_max, seg_max, geometry (not offered), blk_size.
        let numbers = [MAX_SEGMENT, MAX_SEGMENTS, 0, SECTOR].map(u32::to_le_bytes);
        let config = [&self.disk.sectors().to_le_bytes(), numbers.as_flattened()].concat();
        read_window(&config, offset, data);
    }

    fn process(
        &mut self,
        _index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Served, DeviceError> {
        serve_chains(queue, memory, |chain| {
            let work = chain.length();
            let written = self.answer(chain, memory)?;
            Ok(Answer { written, work })
        })
    }

    fn is_output(&self, _index: usize) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
