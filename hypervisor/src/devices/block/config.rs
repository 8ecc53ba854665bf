//! Queue, features, limits and configuration space of the block device (virtio 1.2 §5.2).

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX,
    VIRTIO_BLK_ID_BYTES,
};

/// Maximum number of descriptors of `requestq`.
pub(super) const QUEUE_SIZES: [u16; 1] = [128];

/// Size of a sector in bytes: the unit of capacity and positions, and the logical block size.
pub const SECTOR_SIZE: u32 = 512;

/// `seg_max`: maximum number of data buffers of a request. Two more descriptors are for the header and the
/// status byte.
const MAX_SEGMENTS: u32 = QUEUE_SIZES[0] as u32 - 2;

/// `size_max`: maximum size in bytes of a data buffer.
const MAX_SEGMENT_SIZE: u32 = 128 * 1024;

/// Maximum size in bytes of the data of a request, about 16 MiB. It is the product of `seg_max` and
/// `size_max`, so a conforming driver never exceeds it.
pub(super) const MAX_DATA: u32 = MAX_SEGMENTS * MAX_SEGMENT_SIZE;

/// Answer to `VIRTIO_BLK_T_GET_ID`: the device ID string, padded with zeros.
pub(super) const DEVICE_ID: [u8; VIRTIO_BLK_ID_BYTES as usize] = *b"uhyve-block\0\0\0\0\0\0\0\0\0";

/// Feature bits that the device offers.
pub(super) fn features(is_read_only: bool) -> u64 {
    let always = 1 << VIRTIO_BLK_F_SIZE_MAX
        | 1 << VIRTIO_BLK_F_SEG_MAX
        | 1 << VIRTIO_BLK_F_BLK_SIZE
        | 1 << VIRTIO_BLK_F_FLUSH;
    always | u64::from(is_read_only) << VIRTIO_BLK_F_RO
}

/// Returns the configuration space (`struct virtio_blk_config`, virtio 1.2 §5.2.4) of a disk with `sectors`
/// sectors.
pub(super) fn config_space(sectors: u64) -> Vec<u8> {
    // capacity, size_max, seg_max, geometry (not offered), blk_size.
    let numbers = [MAX_SEGMENT_SIZE, MAX_SEGMENTS, 0, SECTOR_SIZE].map(u32::to_le_bytes);
    [&sectors.to_le_bytes(), numbers.as_flattened()].concat()
}
