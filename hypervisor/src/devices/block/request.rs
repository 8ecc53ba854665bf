//! What a chain asks of a disk (virtio 1.2, section 5.2.6).

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
};
use vm_memory::GuestMemoryMmap;

use super::{MAX_DATA, SECTOR};
use crate::devices::virtio::DeviceError;
use crate::devices::virtio::chain::{Buffers, Chain};

/// A request and the byte that says what has come of it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) status: Buffers,
}

/// What to do.
#[derive(Debug)]
pub(super) enum Operation {
    /// Fill `data` from `sector` on.
    Read { sector: u64, data: Buffers },
    /// Store `data` from `sector` on.
    Write { sector: u64, data: Buffers },
    /// Make sure that what was written stays.
    Flush,
    /// Tell the serial number.
    Identify { data: Buffers },
    /// Something that this device does not know.
    Unknown { kind: u32 },
    /// Something that makes no sense.
    Malformed(&'static str),
}

/// Section 5.2.6: the part of a request that the device only reads begins with this.
const HEADER: usize = 16;

impl Request {
    /// Reads the header, which like everything may be cut into pieces (section 2.7.4). The status is the last byte that
    /// the device may write.
    ///
    /// # Errors
    ///
    /// There is no room for a status.
    pub(super) fn parse(mut chain: Chain, memory: &GuestMemoryMmap) -> Result<Self, DeviceError> {
        let room = chain.writable.length().checked_sub(1).ok_or(DeviceError::Direction)?;
        let to_guest = chain.writable.take(room);
        let status = chain.writable;
        let mut header = [0; HEADER];
        let operation = if chain.readable.read(memory, &mut header)? == HEADER {
            operation(header, chain.readable, to_guest)
        } else {
            Operation::Malformed("request without a header")
        };
        Ok(Self { operation, status })
    }
}

fn operation(header: [u8; HEADER], from_guest: Buffers, to_guest: Buffers) -> Operation {
    let [a, b, c, d, _, _, _, _, sector @ ..] = header;
    let sector = u64::from_le_bytes(sector);
    match u32::from_le_bytes([a, b, c, d]) {
        VIRTIO_BLK_T_IN if !from_guest.is_empty() => Operation::Malformed("read with something to write"),
        VIRTIO_BLK_T_IN if !is_acceptable(&to_guest) => Operation::Malformed("read of a bad size"),
        VIRTIO_BLK_T_IN => Operation::Read { sector, data: to_guest },
        VIRTIO_BLK_T_OUT if !to_guest.is_empty() => Operation::Malformed("write with something to read"),
        VIRTIO_BLK_T_OUT if !is_acceptable(&from_guest) => Operation::Malformed("write of a bad size"),
        VIRTIO_BLK_T_OUT => Operation::Write { sector, data: from_guest },
        VIRTIO_BLK_T_FLUSH => Operation::Flush,
        VIRTIO_BLK_T_GET_ID => Operation::Identify { data: to_guest },
        kind => Operation::Unknown { kind },
    }
}

fn is_acceptable(data: &Buffers) -> bool {
    u32::try_from(data.length()).is_ok_and(|length| length <= MAX_DATA && length.is_multiple_of(SECTOR))
}
