//! Sizes of the memory for received and transmitted frames.

use virtio_spec::net::F;

use super::ETHERNET_HEADER;
use super::header::HEADER_SIZE;
use crate::device::InitError;
use crate::dma::DmaPermit;
use crate::dma::mirrored::{MirroredAllocator, MirroredMemory, Span};

/// Minimum size in bytes of the memory of each direction: enough for a few frames of maximum size.
const MIN_MEMORY: usize = 256 << 10;

/// Minimum size of an RX buffer in bytes: a frame of the usual MTU.
const MIN_BUFFER: usize = 2048;

/// Size of a VLAN tag in bytes (IEEE 802.1Q), which a frame may contain.
const VLAN_TAG: usize = 4;

/// Sizes of RX and TX memory in bytes. Both are rounded up to powers of two, and to a minimum.
///
/// If there is no contiguous memory of these sizes, the driver halves the sizes until an allocation succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// Memory for received frames.
    pub rx: usize,
    /// Memory for frames to transmit.
    pub tx: usize,
}

impl Default for BufferSizes {
    fn default() -> Self {
        Self { rx: 1 << 20, tx: 512 << 10 }
    }
}

impl BufferSizes {
    /// Allocates the memory of both directions, for RX buffers of at least `buffer` bytes.
    pub(super) fn allocate<A: MirroredMemory>(
        self,
        allocator: &impl MirroredAllocator<Mirrored = A>,
        buffer: usize,
        permit: &DmaPermit,
    ) -> Result<(Span<A>, Span<A>), InitError> {
        let min = Self { rx: MIN_MEMORY.max(2 * buffer), tx: MIN_MEMORY };
        let mut sizes = self.rounded(min).ok_or(InitError::OutOfMemory)?;
        loop {
            let receive = Span::allocate(allocator, sizes.rx, permit);
            if let Some(both) = receive.zip(Span::allocate(allocator, sizes.tx, permit)) {
                return Ok(both);
            }
            if sizes == min {
                return Err(InitError::OutOfMemory);
            }
            let half = |size: usize, min| (size / 2).max(min);
            sizes = Self { rx: half(sizes.rx, min.rx), tx: half(sizes.tx, min.tx) };
        }
    }

    /// Rounds both sizes up to powers of two of at least `min`.
    fn rounded(self, min: Self) -> Option<Self> {
        Some(Self {
            rx: self.rx.max(min.rx).checked_next_power_of_two()?,
            tx: self.tx.max(min.tx).checked_next_power_of_two()?,
        })
    }
}

/// Minimum size of an RX buffer, a power of two: a frame of the device's MTU, unless frames may span several
/// buffers.
pub(super) fn min_buffer_size(features: F, mtu: u16) -> usize {
    if features.contains(F::MRG_RXBUF) {
        return MIN_BUFFER;
    }
    let frame = HEADER_SIZE + ETHERNET_HEADER + VLAN_TAG + usize::from(mtu);
    frame.next_power_of_two().max(MIN_BUFFER)
}
