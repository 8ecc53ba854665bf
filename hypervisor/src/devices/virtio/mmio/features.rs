//! Which features are offered, and which the driver has chosen (virtio 1.2, section 2.2).

use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

/// What every device offers. A chain has as few buffers behind an indirect descriptor as without ([`super::super::chain`]).
const COMMON: u64 = 1 << VIRTIO_F_VERSION_1 | 1 << VIRTIO_RING_F_EVENT_IDX | 1 << VIRTIO_RING_F_INDIRECT_DESC;

/// Features, seen through a window of 32 bits.
#[derive(Debug)]
pub(super) struct Features {
    offered: u64,
    accepted: u64,
    /// The driver has chosen something behind bit 63, where nothing is offered.
    accepted_beyond: bool,
    offered_page: u32,
    accepted_page: u32,
}

impl Features {
    /// Nothing is chosen yet.
    pub(super) fn new(of_device: u64) -> Self {
        let offered = of_device | COMMON;
        Self { offered, accepted: 0, accepted_beyond: false, offered_page: 0, accepted_page: 0 }
    }

    /// `DeviceFeaturesSel`.
    pub(super) fn select_offered(&mut self, page: u32) {
        self.offered_page = page;
    }

    /// `DeviceFeatures`.
    pub(super) fn offered_page(&self) -> u32 {
        match self.offered_page {
            0 => halves(self.offered).0,
            1 => halves(self.offered).1,
            _ => 0,
        }
    }

    /// `DriverFeaturesSel`.
    pub(super) fn select_accepted(&mut self, page: u32) {
        self.accepted_page = page;
    }

    /// `DriverFeatures`.
    pub(super) fn accept_page(&mut self, value: u32) {
        let (low, high) = halves(self.accepted);
        match self.accepted_page {
            0 => self.accepted = whole(value, high),
            1 => self.accepted = whole(low, value),
            _ => self.accepted_beyond |= value != 0,
        }
    }

    /// What the driver has chosen.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Whether the driver has chosen from what is offered, and speaks this version of virtio.
    pub(super) fn are_acceptable(&self) -> bool {
        let is_modern = self.accepted & 1 << VIRTIO_F_VERSION_1 != 0;
        is_modern && self.accepted & !self.offered == 0 && !self.accepted_beyond
    }

    /// Whether notifications name an index from which on they are wanted (section 2.7.10).
    pub(super) fn has_event_index(&self) -> bool {
        self.accepted & 1 << VIRTIO_RING_F_EVENT_IDX != 0
    }
}

/// A number of 64 bits as the low and the high half.
pub(super) fn halves(number: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
}

/// A number of 64 bits from the low and the high half.
pub(super) fn whole(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::{halves, whole};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn halves_make_a_whole(number: u64) {
            let (low, high) = halves(number);
            prop_assert_eq!(whole(low, high), number);
            prop_assert_eq!(u64::from(high), number >> 32);
        }
    }
}
