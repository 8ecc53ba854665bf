//! Path of a connection's packets: through the device or the loopback.

use core::net::IpAddr;

use crate::ip::delivery::Via;
use crate::phy::NetInterface;
use crate::phy::device::{IpVersion, MIN_MTU};
use crate::wire::emit::{self, ETHERNET};
use crate::wire::tcp::{ChecksumBy, TCP};

/// MTU of the loopback in bytes, which limits its segments.
const LOCAL_MTU: u16 = u16::MAX;

/// Path of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Loopback.
    Local,
    /// Through the device, with packets of this IP version.
    Wire(IpVersion),
}

/// Limits and offloads of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// MTU: maximum size of a packet in bytes.
    pub(crate) mtu: u16,
    /// Maximum size in bytes of a packet for TCP segmentation offload; `None` without it.
    pub(crate) segmented: Option<u16>,
    pub(crate) checksum: ChecksumBy,
}

impl Path {
    /// The path to an address.
    pub(crate) const fn to(address: &IpAddr, is_local: bool) -> Self {
        match address {
            _ if is_local => Self::Local,
            IpAddr::V4(_) => Self::Wire(IpVersion::V4),
            IpAddr::V6(_) => Self::Wire(IpVersion::V6),
        }
    }

    /// Limits and offloads of the path with the device of `interface`.
    pub(crate) fn limits(self, interface: Option<&NetInterface>) -> Limits {
        let (Self::Wire(version), Some(interface)) = (self, interface) else {
            return Limits { mtu: LOCAL_MTU, segmented: None, checksum: ChecksumBy::Software };
        };
        let info = &interface.info;
        let mtu = info.mtu.max(MIN_MTU);
        if !info.fills_checksums {
            return Limits { mtu, segmented: None, checksum: ChecksumBy::Software };
        }
        let frame = match version {
            IpVersion::V4 => info.segments_v4,
            IpVersion::V6 => info.segments_v6,
        };
        let packet = frame.map(|frame| {
            let packet = usize::try_from(frame).unwrap_or(usize::MAX).saturating_sub(ETHERNET);
            u16::try_from(packet).unwrap_or(u16::MAX)
        });
        Limits { mtu, segmented: packet.filter(|&packet| packet > mtu), checksum: ChecksumBy::Device }
    }
}

impl Via {
    /// Path of answers to a packet from an address.
    pub(crate) fn path(self, source: &IpAddr) -> Path {
        Path::to(source, self == Self::Local)
    }
}

impl Limits {
    /// Maximum segment size of data and options, for packets from or to an address: the MSS of a SYN (RFC
    /// 9293 §3.7.1).
    pub(crate) fn mss(&self, address: &IpAddr) -> u16 {
        Self::without_headers(self.mtu, address)
    }

    /// Maximum size in bytes of data and options for TCP segmentation offload; 0 without it.
    pub(crate) fn segmented_size(&self, address: &IpAddr) -> u16 {
        self.segmented.map_or(0, |packet| Self::without_headers(packet, address))
    }

    /// Returns the size of a packet without its IP and TCP headers.
    pub(crate) fn without_headers(packet: u16, address: &IpAddr) -> u16 {
        let headers = u16::try_from(emit::ip_header(address) + TCP).unwrap_or(u16::MAX);
        packet.saturating_sub(headers)
    }
}
