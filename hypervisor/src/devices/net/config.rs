//! Queues, features, limits and configuration space of the network device (virtio 1.2 §5.1).

use virtio_bindings::virtio_net::{
    VIRTIO_NET_F_CSUM, VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6,
    VIRTIO_NET_F_HOST_TSO4, VIRTIO_NET_F_HOST_TSO6, VIRTIO_NET_F_MAC, VIRTIO_NET_F_MRG_RXBUF,
    VIRTIO_NET_F_MTU, VIRTIO_NET_F_STATUS, VIRTIO_NET_S_LINK_UP,
};

/// Index of `receiveq1`.
pub(super) const RECEIVEQ: usize = 0;

/// Index of `transmitq1`.
pub(super) const TRANSMITQ: usize = 1;

/// Maximum number of descriptors of each queue.
pub(super) const QUEUE_SIZES: [u16; 2] = [512, 512];

/// Size in bytes of an Ethernet header without a VLAN tag. Frames come without a frame check sequence.
const ETHERNET_HEADER: usize = 14;

/// Size in bytes of an Ethernet header with an IEEE 802.1Q VLAN tag.
pub(super) const TAGGED_ETHERNET_HEADER: usize = ETHERNET_HEADER + 4;

/// Minimum size in bytes of a frame: an Ethernet header.
pub const MIN_FRAME: usize = ETHERNET_HEADER;

/// Maximum size in bytes of a frame: a tagged Ethernet header and the longest IP packet.
pub const MAX_FRAME: usize = TAGGED_ETHERNET_HEADER + 65_535;

/// Fixed part of the device's configuration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetConfig {
    /// MAC address of the guest.
    pub mac: [u8; 6],
    /// Maximum size in bytes of an IP packet.
    pub mtu: u16,
}

impl NetConfig {
    /// Configuration space (`struct virtio_net_config`, virtio 1.2 §5.1.4).
    pub(super) fn config_space(self, is_link_up: bool) -> Vec<u8> {
        // mac, status, max_virtqueue_pairs (not offered), mtu.
        let status = if is_link_up { VIRTIO_NET_S_LINK_UP } else { 0 };
        let [a, b, ..] = status.to_le_bytes();
        let [c, d] = self.mtu.to_le_bytes();
        [&self.mac[..], &[a, b], &[0, 0], &[c, d]].concat()
    }
}

/// Feature bits that the device offers.
pub(super) fn features(has_offloads: bool) -> u64 {
    let always = 1 << VIRTIO_NET_F_MAC
        | 1 << VIRTIO_NET_F_MTU
        | 1 << VIRTIO_NET_F_STATUS
        | 1 << VIRTIO_NET_F_MRG_RXBUF;
    let offloads = 1 << VIRTIO_NET_F_CSUM
        | 1 << VIRTIO_NET_F_GUEST_CSUM
        | 1 << VIRTIO_NET_F_HOST_TSO4
        | 1 << VIRTIO_NET_F_HOST_TSO6
        | 1 << VIRTIO_NET_F_GUEST_TSO4
        | 1 << VIRTIO_NET_F_GUEST_TSO6;
    always | if has_offloads { offloads } else { 0 }
}
