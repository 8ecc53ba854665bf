//! What the stack asks of a network device: the seam to the driver, or to a fake.

use hermit_interface::net::MIN_MTU_V6;

/// What a device is and can do. It does not change while the stack uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareInfo {
    /// The hardware address.
    pub mac: [u8; 6],
    /// Most bytes of an IP packet in one frame: 68 at least. With fewer than 1280 there is no IPv6; DHCP and questions to
    /// name servers need 576.
    pub mtu: u16,
    /// Whether the checksums of TCP may be left to it: see [`Offload::checksum`].
    pub fills_checksums: bool,
    /// Most bytes of a frame with TCP over IPv4 that it cuts into segments; counts only with `fills_checksums`.
    pub segments_v4: Option<u32>,
    /// The same for TCP over IPv6.
    pub segments_v6: Option<u32>,
}

/// The least MTU of IPv4, which every device has (RFC 791; virtio 1.2, section 5.1.4.1).
pub(crate) const LEAST_MTU: u16 = 68;

impl HardwareInfo {
    /// Whether packets of IPv6 fit into frames. If not, none are sent or received.
    pub(crate) const fn carries_v6(&self) -> bool {
        self.mtu >= MIN_MTU_V6
    }
}

/// What is known of a frame that was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedInfo {
    /// The checksum of TCP or UDP has been verified, or its data never left the machine: it is not looked at.
    pub checksum_good: bool,
}

/// The version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Where a checksum is to be filled in: virtio's `csum_start` and `csum_offset` (virtio 1.2, section 5.1.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Where the summed bytes begin; they end with the frame.
    pub start: u16,
    /// Where the checksum is, from `start` on. The field holds the sum of the pseudo header.
    pub offset: u16,
}

/// How a frame is to be cut into segments: virtio's `gso_type`, `hdr_len` and `gso_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Of the TCP that is cut.
    pub version: IpVersion,
    /// Bytes of all headers, which each segment gets.
    pub header_size: u16,
    /// Most bytes of data of each segment.
    pub size: u16,
}

/// What the device does to a frame that it transmits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The checksum it fills in. None: the frame is complete.
    pub checksum: Option<Checksum>,
    /// How it cuts the frame. None: it does not.
    pub segment: Option<Segment>,
}

/// A network device that carries Ethernet frames.
pub trait Hardware {
    /// What it is and can do.
    fn info(&self) -> HardwareInfo;

    /// Hands the next frame to `take`: Ethernet, without frame check sequence, up to 64 KiB and its headers.
    ///
    /// Returns what `take` does, or `None` if there is no frame.
    fn receive<R>(&mut self, take: impl FnOnce(&[u8], ReceivedInfo) -> R) -> Option<R>;

    /// Whether there is room for one more frame of at most `size` bytes.
    fn can_transmit(&mut self, size: usize) -> bool;

    /// Has `fill` write a frame of `size` bytes in place, then queues it.
    ///
    /// Called only when [`can_transmit`](Self::can_transmit) has said so for at least this size.
    fn transmit<R>(&mut self, size: usize, offload: Offload, fill: impl FnOnce(&mut [u8]) -> R) -> R;

    /// Whether frames have been queued that are not on their way yet. Then the stack is polled as soon as they are. A
    /// device that cannot tell says no.
    fn is_sending(&mut self) -> bool {
        false
    }
}
