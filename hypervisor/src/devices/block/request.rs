//! Requests of the block device (virtio 1.2 §5.2.6).

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
};
use vm_memory::GuestMemoryMmap;

use super::config::{MAX_DATA, SECTOR_SIZE};
use crate::devices::virtio::DeviceError;
use crate::devices::virtio::chain::{Buffers, Chain};

/// A parsed request and its status byte.
#[derive(Debug)]
pub(super) struct BlockRequest {
    pub(super) operation: BlockOperation,
    pub(super) status: Buffers,
}

/// Operation of a request.
#[derive(Debug)]
pub(super) enum BlockOperation {
    /// `VIRTIO_BLK_T_IN`: read into `data`, beginning at `sector`.
    Read { sector: u64, data: Buffers },
    /// `VIRTIO_BLK_T_OUT`: write `data`, beginning at `sector`.
    Write { sector: u64, data: Buffers },
    /// `VIRTIO_BLK_T_FLUSH`: commit completed writes to stable storage.
    Flush,
    /// `VIRTIO_BLK_T_GET_ID`: write the device ID string to `data`.
    GetId { data: Buffers },
    /// A request type that the device does not support.
    Unsupported { request_type: u32 },
    /// An invalid request, with the reason.
    Invalid(&'static str),
}

/// Size in bytes of the request header: type, reserved, sector.
const HEADER_SIZE: usize = 16;

impl BlockRequest {
    /// Parses the header at the start of the device-readable part. Splits off the last device-writable byte,
    /// which is the status. The boundaries of the buffers carry no meaning (virtio 1.2 §2.7.4).
    ///
    /// # Errors
    ///
    /// The chain has no device-writable byte for the status.
    pub(super) fn parse(mut chain: Chain, memory: &GuestMemoryMmap) -> Result<Self, DeviceError> {
        let data_size = chain.writable.length().checked_sub(1).ok_or(DeviceError::Direction)?;
        let to_guest = chain.writable.take(data_size);
        let status = chain.writable;
        let mut header = [0; HEADER_SIZE];
        let operation = if chain.readable.read(memory, &mut header)? == HEADER_SIZE {
            operation(header, chain.readable, to_guest)
        } else {
            BlockOperation::Invalid("request without a header")
        };
        Ok(Self { operation, status })
    }
}

fn operation(header: [u8; HEADER_SIZE], from_guest: Buffers, to_guest: Buffers) -> BlockOperation {
    let [a, b, c, d, _, _, _, _, sector @ ..] = header;
    let sector = u64::from_le_bytes(sector);
    match u32::from_le_bytes([a, b, c, d]) {
        VIRTIO_BLK_T_IN if !from_guest.is_empty() => {
            BlockOperation::Invalid("read with device-readable data")
        }
        VIRTIO_BLK_T_IN if !is_valid_size(&to_guest) => BlockOperation::Invalid("read of an invalid size"),
        VIRTIO_BLK_T_IN => BlockOperation::Read { sector, data: to_guest },
        VIRTIO_BLK_T_OUT if !to_guest.is_empty() => {
            BlockOperation::Invalid("write with device-writable data")
        }
        VIRTIO_BLK_T_OUT if !is_valid_size(&from_guest) => {
            BlockOperation::Invalid("write of an invalid size")
        }
        VIRTIO_BLK_T_OUT => BlockOperation::Write { sector, data: from_guest },
        VIRTIO_BLK_T_FLUSH => BlockOperation::Flush,
        VIRTIO_BLK_T_GET_ID => BlockOperation::GetId { data: to_guest },
        request_type => BlockOperation::Unsupported { request_type },
    }
}

/// Returns true if the data is a whole number of sectors, and at most [`MAX_DATA`].
fn is_valid_size(data: &Buffers) -> bool {
    u32::try_from(data.length()).is_ok_and(|length| length <= MAX_DATA && length.is_multiple_of(SECTOR_SIZE))
}
