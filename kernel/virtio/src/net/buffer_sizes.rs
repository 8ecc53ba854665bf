//! How much memory frames have.

use virtio_spec::net::F;

use super::ETHERNET_HEADER;
use super::header::HEADER;
use crate::device::InitError;
use crate::dma::mirrored::{MirroredAllocator, MirroredMemory, Span};

/// Least memory for either direction, in bytes: some of the largest frames.
const MIN_MEMORY: usize = 256 << 10;

/// Least bytes of a buffer for received frames: a usual frame.
const MIN_BUFFER: usize = 2048;

/// Bytes of a VLAN's tag, which may be in a frame.
const TAG: usize = 4;

/// How much memory frames may have, in bytes. Both are rounded up to powers of two, and there is some in any case.
///
/// If there are no such blocks of contiguous memory the driver makes do with smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// For received frames.
    pub receive: usize,
    /// For frames to be transmitted.
    pub transmit: usize,
}

impl Default for BufferSizes {
    fn default() -> Self {
        Self { receive: 1 << 20, transmit: 512 << 10 }
    }
}

impl BufferSizes {
    /// The arenas for both directions, if buffers for received frames have at least `buffer` bytes.
    pub(super) fn allocate<A: MirroredMemory>(
        self,
        allocator: &impl MirroredAllocator<Mirrored = A>,
        buffer: usize,
    ) -> Result<(Span<A>, Span<A>), InitError> {
        let least = Self { receive: MIN_MEMORY.max(2 * buffer), transmit: MIN_MEMORY };
        let mut sizes = self.rounded(least).ok_or(InitError::OutOfMemory)?;
        loop {
            let receive = Span::allocate(allocator, sizes.receive);
            if let Some(both) = receive.zip(Span::allocate(allocator, sizes.transmit)) {
                return Ok(both);
            }
            if sizes == least {
                return Err(InitError::OutOfMemory);
            }
            let half = |size: usize, least| (size / 2).max(least);
            sizes = Self {
                receive: half(sizes.receive, least.receive),
                transmit: half(sizes.transmit, least.transmit),
            };
        }
    }

    /// Powers of two, and not less than that.
    fn rounded(self, least: Self) -> Option<Self> {
        Some(Self {
            receive: self.receive.max(least.receive).checked_next_power_of_two()?,
            transmit: self.transmit.max(least.transmit).checked_next_power_of_two()?,
        })
    }
}

/// Least bytes of a buffer for received frames, a power of two: the largest frame on the network, unless that may be in
/// several buffers.
pub(super) fn min_buffer_size(features: F, mtu: u16) -> usize {
    if features.contains(F::MRG_RXBUF) {
        return MIN_BUFFER;
    }
    let frame = HEADER + ETHERNET_HEADER + TAG + usize::from(mtu);
    frame.next_power_of_two().max(MIN_BUFFER)
}
