//! Queue of the entropy device and its limits (virtio 1.2 §5.4).

/// Maximum number of descriptors of `requestq`.
pub(super) const QUEUE_SIZES: [u16; 1] = [64];

/// Maximum number of random bytes that are copied to guest memory at once.
pub(super) const CHUNK: usize = 4096;

/// Maximum number of random bytes for one descriptor chain. A longer chain is filled only in part (virtio 1.2
/// §5.4.6.2).
pub(super) const MAX_REQUEST: usize = 64 * 1024;
