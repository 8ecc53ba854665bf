//! Queues, limits and configuration space of the file-system device (virtio 1.2 §5.11).

use hermit_fuse::TAG_SIZE;

/// Maximum number of descriptors of `hiprio` and of the request queue: enough for [`MAX_DATA`] in pages of 4
/// KiB.
pub(super) const QUEUE_SIZES: [u16; 2] = [64, 512];

/// Index of `hiprio`. Requests in this queue must not be delayed by those in the other queue.
pub(super) const HIGH_PRIORITY: usize = 0;

/// Maximum size in bytes of the data of a request or a reply.
pub(super) const MAX_DATA: usize = 1024 * 1024;

/// Maximum size in bytes of a request without its header: data, and the structure before it.
pub(super) const MAX_REQUEST: usize = MAX_DATA + 4096;

/// Configuration space (virtio 1.2 §5.11.4): tag and number of request queues.
pub(super) fn config_space(tag: &str) -> Vec<u8> {
    let mut space = tag.as_bytes().to_vec();
    space.resize(TAG_SIZE, 0);
    space.extend(1_u32.to_le_bytes());
    space
}
