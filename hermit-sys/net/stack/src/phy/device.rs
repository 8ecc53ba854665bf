//! Interface to the network device, or to a simulated one in tests.

use hermit_interface::net::MIN_MTU_V6;

/// Properties and capabilities of a device. They are constant while the stack uses the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetDeviceInfo {
    /// MAC address.
    pub mac: [u8; 6],
    /// MTU: maximum size of an IP packet in bytes, at least 68. IPv6 needs 1280; DHCP and DNS need 576.
    pub mtu: u16,
    /// True if the device completes TCP checksums on transmit (checksum offload, [`Offload::checksum`]).
    pub fills_checksums: bool,
    /// Maximum size in bytes of a frame for TCP segmentation offload over IPv4; requires `fills_checksums`.
    pub segments_v4: Option<u32>,
    /// Maximum size in bytes of a frame for TCP segmentation offload over IPv6; requires `fills_checksums`.
    pub segments_v6: Option<u32>,
}

/// Minimum MTU of IPv4, supported by every device (RFC 791; virtio 1.2, section 5.1.4.1).
pub(crate) const MIN_MTU: u16 = 68;

impl NetDeviceInfo {
    /// True if the MTU suffices for IPv6. If not, no IPv6 packets are sent or received.
    pub(crate) const fn carries_v6(&self) -> bool {
        self.mtu >= MIN_MTU_V6
    }
}

/// Receive offload state of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedInfo {
    /// True if the device has verified the TCP or UDP checksum, or the data never left the machine. The stack
    /// then does not verify the checksum.
    pub checksum_good: bool,
}

/// Version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Checksum offload of a frame: virtio's `csum_start` and `csum_offset` (virtio 1.2, section 5.1.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Offset at which the checksummed bytes start; they end with the frame.
    pub start: u16,
    /// Offset of the checksum field from `start`. The field holds the sum of the pseudo header.
    pub offset: u16,
}

/// TCP segmentation offload of a frame: virtio's `gso_type`, `hdr_len` and `gso_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// IP version of the frame.
    pub version: IpVersion,
    /// Size in bytes of the headers, which the device copies to each segment.
    pub header_size: u16,
    /// Payload bytes per segment (MSS).
    pub size: u16,
}

/// Transmit offloads of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Checksum that the device completes. `None`: the checksum is complete.
    pub checksum: Option<Checksum>,
    /// Segmentation of the frame. `None`: the device sends it as it is.
    pub segment: Option<Segment>,
}

/// A network device that carries Ethernet frames.
pub trait NetDevice {
    /// Properties and capabilities of the device.
    fn info(&self) -> NetDeviceInfo;

    /// Calls `take` with the next received Ethernet frame, without frame check sequence, up to 64 KiB plus
    /// headers. Returns the result of `take`, or `None` if there is no frame.
    fn receive<R>(&mut self, take: impl FnOnce(&[u8], ReceivedInfo) -> R) -> Option<R>;

    /// True if the transmit queue has room for a frame of at most `size` bytes.
    fn can_transmit(&mut self, size: usize) -> bool;

    /// Calls `fill` to write a frame of `size` bytes in place, then queues it for transmission. The stack
    /// calls it only after [`can_transmit`](Self::can_transmit) has returned `true` for at least this size.
    /// If the device has no room nevertheless, it does not call `fill`: the frame is lost, as on any link.
    fn transmit(&mut self, size: usize, offload: Offload, fill: impl FnOnce(&mut [u8]));

    /// True if queued frames are not transmitted yet. The kernel polls the stack when they have been
    /// transmitted. A device that does not report this returns `false`.
    fn is_sending(&mut self) -> bool {
        false
    }
}
