//! The path of a connection's packets: through the device, or within this host.

use core::net::IpAddr;

use crate::core::Port;
use crate::hardware::{IpVersion, LEAST_MTU};
use crate::wire::emit::{self, ETHERNET};
use crate::wire::tcp::{ChecksumBy, TCP};

/// Size in bytes of the largest packet from this host to itself.
const LOCAL_MTU: u16 = u16::MAX;

/// The path of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Its packets stay on this host.
    Local,
    /// Through the device, as packets of this version.
    Wire(IpVersion),
}

/// What a path takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of bytes of a packet.
    pub(crate) mtu: u16,
    /// Maximum number of bytes of a packet that the device cuts into segments; `None` if it does not.
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

    /// What it takes, with this device.
    pub(crate) fn limits(self, port: Option<&Port>) -> Limits {
        let (Self::Wire(version), Some(port)) = (self, port) else {
            // Both ends are on this host: nothing is gained by a checksum.
            return Limits { mtu: LOCAL_MTU, segmented: None, checksum: ChecksumBy::Nobody };
        };
        let info = &port.info;
        let mtu = info.mtu.max(LEAST_MTU);
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

impl Limits {
    /// Bytes of data and options in the largest segment from or to an address: the MSS of a SYN (RFC 9293 §3.7.1).
    pub(crate) fn mss(&self, address: &IpAddr) -> u16 {
        Self::without_headers(self.mtu, address)
    }

    /// Bytes of data and options in what the device cuts; 0 if it does not.
    pub(crate) fn segmented_size(&self, address: &IpAddr) -> u16 {
        self.segmented.map_or(0, |packet| Self::without_headers(packet, address))
    }

    /// What is left of a packet without the headers of IP and TCP.
    pub(crate) fn without_headers(packet: u16, address: &IpAddr) -> u16 {
        let headers = u16::try_from(emit::ip_header(address) + TCP).unwrap_or(u16::MAX);
        packet.saturating_sub(headers)
    }
}
