//! Queues of the console and their limits (virtio 1.2 §5.3).

/// Index of `receiveq(port0)`: buffers that the device fills with input.
pub(super) const RECEIVEQ: usize = 0;

/// Index of `transmitq(port0)`: buffers that hold output.
pub(crate) const TRANSMITQ: usize = 1;

/// Maximum number of descriptors of each queue.
pub(super) const QUEUE_SIZES: [u16; 2] = [256, 256];

/// Maximum size in bytes of a chunk in which output is copied from guest memory.
pub(super) const TX_CHUNK: usize = 64 * 1024;

/// Maximum size in bytes of one descriptor chain of output.
pub(super) const MAX_TX_CHAIN: usize = 1024 * 1024;
