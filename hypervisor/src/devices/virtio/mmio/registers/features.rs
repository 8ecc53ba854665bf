//! Feature negotiation (virtio 1.2 §2.2) through the feature registers.

use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

/// Features that every device offers. Indirect descriptors are safe, because the limit on a chain's length
/// also counts the descriptors of an indirect table ([`crate::devices::virtio::chain`]).
const COMMON: u64 = 1 << VIRTIO_F_VERSION_1 | 1 << VIRTIO_RING_F_EVENT_IDX | 1 << VIRTIO_RING_F_INDIRECT_DESC;

/// Offered and accepted features. The registers give access to one page of 32 bits at a time.
#[derive(Debug)]
pub(super) struct Features {
    offered: u64,
    accepted: u64,
    /// True if the driver has accepted a feature above bit 63, where the device offers no features.
    has_accepted_beyond: bool,
    offered_page: u32,
    accepted_page: u32,
}

impl Features {
    /// Offers the features of the device and the common features. No feature is accepted yet.
    pub(super) fn new(of_device: u64) -> Self {
        let offered = of_device | COMMON;
        Self { offered, accepted: 0, has_accepted_beyond: false, offered_page: 0, accepted_page: 0 }
    }

    /// Writes `DeviceFeaturesSel`.
    pub(super) fn select_offered(&mut self, page: u32) {
        self.offered_page = page;
    }

    /// Reads `DeviceFeatures`.
    pub(super) fn offered_page(&self) -> u32 {
        match self.offered_page {
            0 => halves(self.offered).0,
            1 => halves(self.offered).1,
            _ => 0,
        }
    }

    /// Writes `DriverFeaturesSel`.
    pub(super) fn select_accepted(&mut self, page: u32) {
        self.accepted_page = page;
    }

    /// Writes `DriverFeatures`.
    pub(super) fn accept_page(&mut self, value: u32) {
        let (low, high) = halves(self.accepted);
        match self.accepted_page {
            0 => self.accepted = from_halves(value, high),
            1 => self.accepted = from_halves(low, value),
            _ => self.has_accepted_beyond |= value != 0,
        }
    }

    /// Returns the features that the driver has accepted.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns true if `FEATURES_OK` may be set: the driver has accepted `VIRTIO_F_VERSION_1`, and only
    /// offered features.
    pub(super) fn are_acceptable(&self) -> bool {
        let is_modern = self.accepted & 1 << VIRTIO_F_VERSION_1 != 0;
        is_modern && self.accepted & !self.offered == 0 && !self.has_accepted_beyond
    }

    /// Returns true if `VIRTIO_RING_F_EVENT_IDX` is negotiated.
    pub(super) fn has_event_index(&self) -> bool {
        self.accepted & 1 << VIRTIO_RING_F_EVENT_IDX != 0
    }
}

/// Returns the low and the high 32 bits of a number.
pub(super) fn halves(number: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
}

/// Returns the number with these low and high 32 bits.
pub(super) fn from_halves(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::{from_halves, halves};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn from_halves_inverts_halves(number: u64) {
            let (low, high) = halves(number);
            prop_assert_eq!(from_halves(low, high), number);
            prop_assert_eq!(u64::from(high), number >> 32);
        }
    }
}
