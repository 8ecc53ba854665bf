//! Queue of the entropy device and its limits (virtio 1.2 §5.4).

/// Maximum number of descriptors of `requestq`.
pub(super) const QUEUE_SIZES: [u16; 1] = [64];

/// Size in bytes of the copies by which random bytes reach guest memory.
pub(super) const CHUNK: usize = 4096;

/// Maximum number of random bytes for one descriptor chain. A longer chain is filled in part (virtio 1.2
/// §5.4.6.2).
pub(super) const MAX_REQUEST: usize = 64 * 1024;
