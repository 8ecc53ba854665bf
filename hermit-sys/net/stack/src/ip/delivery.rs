//! Deliveries: the contents of received frames for the layers above.

use alloc::vec::Vec;
use core::net::IpAddr;

use hermit_interface::Errno;
use smoltcp::wire::{EthernetAddress, IpProtocol};

use crate::wire::packet::Packet;

/// Origin of a packet. Answers go back there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// Loopback.
    Local,
    /// The neighbor with this MAC address.
    Wire(EthernetAddress),
}

/// A received frame after the checks of this layer.
#[derive(Debug)]
pub(crate) enum Received<'a> {
    Delivery(Delivery<'a>),
    /// The frame was the last missing fragment; the value is a frame with the whole packet. The caller passes
    /// it to [`receive_reassembled`](crate::ip::layer::Ip::receive_reassembled), which does not reassemble
    /// again.
    Reassembled(Vec<u8>),
}

/// Contents of a received frame for a layer above.
#[derive(Debug)]
pub(crate) enum Delivery<'a> {
    /// A TCP segment to an own address. If `is_checked`, its checksum has been verified.
    Segment { packet: Packet<'a>, via: Via, is_checked: bool },
    /// A UDP datagram.
    Datagram { packet: Packet<'a>, is_checked: bool },
    /// A neighbor is resolved. These connections have waited for it.
    Resolved(Vec<u32>),
    /// An ICMP error about a sent packet.
    Error(Quoted<'a>, Errno),
    /// "Fragmentation needed" or "packet too big" about a sent packet, with the path MTU in bytes.
    PathMtu(Quoted<'a>, u16),
}

/// A sent packet that an ICMP error quotes. The quotation may be truncated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted<'a> {
    pub(crate) protocol: IpProtocol,
    /// Address and port of this host.
    pub(crate) local: (IpAddr, u16),
    /// Address and port of the destination.
    pub(crate) remote: (IpAddr, u16),
    /// Payload of the sent packet; it begins with the ports.
    pub(crate) payload: &'a [u8],
}

impl<'a> Quoted<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (protocol, source, destination, payload): (_, IpAddr, IpAddr, _) = match bytes.first()? >> 4 {
            4 => {
                let header = usize::from(bytes.first()? & 15) * 4;
                let source: [u8; 4] = bytes.get(12..16)?.try_into().ok()?;
                let destination: [u8; 4] = bytes.get(16..20)?.try_into().ok()?;
                (*bytes.get(9)?, source.into(), destination.into(), bytes.get(header.max(20)..)?)
            }
            6 => {
                let source: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
                let destination: [u8; 16] = bytes.get(24..40)?.try_into().ok()?;
                (*bytes.get(6)?, source.into(), destination.into(), bytes.get(40..)?)
            }
            _ => return None,
        };
        let &[a, b, c, d] = payload.first_chunk()?;
        let [local, remote] = [[a, b], [c, d]].map(u16::from_be_bytes);
        Some(Self {
            protocol: protocol.into(),
            local: (source, local),
            remote: (destination, remote),
            payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Quoted;
    use core::net::{IpAddr, Ipv4Addr};
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn quoted_packet_is_parsed_or_refused(bytes in vec(any::<u8>(), 0..80), is_v4: bool) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = (*first & 0x0f) | if is_v4 { 0x40 } else { 0x60 };
            }
            let header = if is_v4 { 20.max(usize::from(bytes.first().unwrap_or(&0) & 15) * 4) } else { 40 };
            let quoted = Quoted::parse(&bytes);
            // The ports are enough: hosts may quote 8 bytes (RFC 792).
            prop_assert_eq!(quoted.is_some(), bytes.len() >= header + 4);
            if let Some(quoted) = quoted {
                prop_assert_eq!(quoted.local.1, u16::from_be_bytes([bytes[header], bytes[header + 1]]));
                prop_assert_eq!(quoted.payload, &bytes[header..]);
                let address: IpAddr = Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15]).into();
                prop_assert!(!is_v4 || quoted.local.0 == address);
            }
        }
    }
}
