//! How packets get into smoltcp and out of it: devices for one call each.

use alloc::vec::Vec;
use core::num::NonZeroUsize;

use smoltcp::phy::{Checksum as Verified, Device, DeviceCapabilities, Medium, PacketMeta, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{TcpPacket, TcpSeqNumber, checksum};

use crate::hardware::{Checksum, IpVersion, Offload, Segment};
use crate::link::Link;
use crate::wire::emit::{self, ETHERNET, EthernetHeader, TCP};
use crate::wire::packet::Packet;

/// What smoltcp is told of a device that carries packets of IP. Whether checksums are good is looked at before.
pub(crate) fn ip_capabilities(mtu: u16) -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ip;
    capabilities.max_transmission_unit = usize::from(mtu);
    capabilities.checksum.ipv4 = Verified::Tx;
    capabilities.checksum.tcp = Verified::Tx;
    capabilities.checksum.udp = Verified::Tx;
    capabilities
}

/// Leaves the checksums of TCP to the device; they are not needed at all if it is this host.
pub(crate) fn without_tcp_checksums(mut capabilities: DeviceCapabilities) -> DeviceCapabilities {
    capabilities.checksum.tcp = Verified::None;
    capabilities
}

/// Lets the device cut TCP of IPv4 into segments. smoltcp counts no Ethernet header, for it knows of none.
/// That it drops what is larger than the largest packet of IPv6, cut or not, is avoided by saying that it is not larger.
pub(crate) fn with_segmentation(
    mut capabilities: DeviceCapabilities,
    version: IpVersion,
    frame: u32,
) -> DeviceCapabilities {
    let packet =
        usize::try_from(frame).unwrap_or(usize::MAX).saturating_sub(ETHERNET).min(usize::from(u16::MAX));
    if packet <= capabilities.max_transmission_unit {
        return capabilities;
    }
    match version {
        IpVersion::V4 => capabilities.segmentation.tcpv4 = NonZeroUsize::new(packet),
        IpVersion::V6 => {
            capabilities.segmentation.tcpv6 = NonZeroUsize::new(packet);
            capabilities.max_transmission_unit = packet;
        }
    }
    capabilities
}

/// A device that has one packet to be received; the answer to it, if there is one, goes into a buffer.
pub(crate) struct Ingress<'a> {
    pub(crate) packet: Option<&'a [u8]>,
    pub(crate) reply: &'a mut Vec<u8>,
    pub(crate) capabilities: &'a DeviceCapabilities,
}

pub(crate) struct Received<'a>(&'a [u8]);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0)
    }
}

pub(crate) struct Reply<'a>(&'a mut Vec<u8>);

impl TxToken for Reply<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, size: usize, fill: F) -> R {
        self.0.clear();
        self.0.resize(size, 0);
        fill(self.0)
    }
}

impl Device for Ingress<'_> {
    type RxToken<'b>
        = Received<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Reply<'b>
    where
        Self: 'b;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Reply<'_>)> {
        Some((Received(self.packet.take()?), Reply(self.reply)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Reply<'_>> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}

/// What a segment that was sent said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) sequence: TcpSeqNumber,
    /// The number behind the last byte, or behind the flag that counts as one.
    pub(crate) end: TcpSeqNumber,
    pub(crate) acknowledged: TcpSeqNumber,
    pub(crate) window: u16,
    /// Bytes of data.
    pub(crate) size: usize,
    /// How many bytes of data each segment has that the device makes of it; `None` if it stays one.
    pub(crate) segment: Option<u16>,
}

impl Sent {
    fn parse(packet: &[u8], segment: Option<u16>) -> Option<Self> {
        let header = if packet.first()? >> 4 == 4 { 20 } else { 40 };
        let tcp = TcpPacket::new_checked(packet.get(header..)?).ok()?;
        let sequence = tcp.seq_number();
        Some(Self {
            sequence,
            end: sequence + tcp.segment_len(),
            acknowledged: tcp.ack_number(),
            window: tcp.window_len(),
            size: tcp.payload().len(),
            segment,
        })
    }
}

/// What a packet gets that smoltcp does not give it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Touch {
    /// The type of service, or traffic class.
    pub(crate) class: u8,
    /// It may be cut on its way, and has this number then.
    pub(crate) identification: Option<u16>,
    /// What it says at most of how much is taken at a time, if it is a first one.
    pub(crate) announced: Option<u16>,
    /// The largest packet that stays one, and how much data a segment of a larger one has. smoltcp tells of those
    /// only in IPv4.
    pub(crate) uncut: usize,
    pub(crate) segment: usize,
}

impl Touch {
    fn up(&self, packet: &mut [u8]) {
        if self.class != 0 {
            emit::set_class(packet, self.class);
        }
        if let Some(identification) =
            self.identification.filter(|_| packet.first().is_some_and(|first| first >> 4 == 4))
        {
            emit::IpHeader::write_fragment_v4(packet, identification, 0, true);
        }
        if let Some(most) = self.announced {
            let header = if packet.first().is_some_and(|first| first >> 4 == 4) { 20 } else { 40 };
            let first = packet
                .get_mut(header..)
                .filter(|segment| segment.get(13).is_some_and(|flags| flags & 2 != 0));
            if let Some(first) = first {
                emit::limit_segment(first, most);
            }
        }
    }
}

/// A device by which a connection transmits. It notes what.
pub(crate) struct Egress<'a> {
    pub(crate) link: &'a mut dyn Link,
    /// What goes before a packet; `None` if it stays on this host.
    pub(crate) ethernet: Option<EthernetHeader>,
    pub(crate) capabilities: &'a DeviceCapabilities,
    /// Whether the device fills in checksums of TCP.
    pub(crate) fills_checksums: bool,
    pub(crate) touch: Touch,
    /// The most bytes a packet will have.
    pub(crate) room: usize,
    pub(crate) sent: Option<Sent>,
}

impl Egress<'_> {
    /// Whether the link takes what will be sent.
    pub(crate) fn has_room(&mut self) -> bool {
        self.link.can_transmit(self.room + self.ethernet.map_or(0, |_| ETHERNET))
    }
}

impl Device for Egress<'_> {
    type RxToken<'b>
        = Received<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Transmission<'b>
    where
        Self: 'b;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Transmission<'_>)> {
        None
    }

    fn transmit(&mut self, _now: Instant) -> Option<Transmission<'_>> {
        if !self.has_room() {
            return None;
        }
        Some(Transmission {
            link: self.link,
            ethernet: self.ethernet,
            offloads: self.fills_checksums && self.ethernet.is_some(),
            touch: self.touch,
            segment: None,
            sent: &mut self.sent,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}

pub(crate) struct Transmission<'a> {
    link: &'a mut dyn Link,
    ethernet: Option<EthernetHeader>,
    offloads: bool,
    touch: Touch,
    segment: Option<u16>,
    sent: &'a mut Option<Sent>,
}

impl Transmission<'_> {
    /// What the device is to do. smoltcp's headers of segments that carry data have no options.
    fn offload(&self) -> Offload {
        let (version, header) = match self.ethernet.map(|header| header.protocol) {
            Some(smoltcp::wire::EthernetProtocol::Ipv6) => (IpVersion::V6, 40),
            _ => (IpVersion::V4, 20),
        };
        let start = 14 + header;
        let segment = |size| Segment { version, header_size: start + 20, size };
        Offload {
            checksum: self.offloads.then_some(Checksum { start, offset: 16 }),
            segment: self.segment.map(segment),
        }
    }
}

/// Puts the sum of the pseudo header where the device expects it.
fn set_pseudo_checksum(bytes: &mut [u8]) {
    let Some(packet) = Packet::parse(bytes) else { return };
    let (start, size) = (packet.bytes.len() - packet.payload.len(), packet.payload.len());
    let (source, destination) = (packet.source.into(), packet.destination.into());
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let sum = checksum::pseudo_header(&source, &destination, packet.protocol, size);
    if let Some(segment) = bytes.get_mut(start..).filter(|segment| segment.len() >= TCP) {
        TcpPacket::new_unchecked(segment).set_checksum(sum);
    }
}

impl TxToken for Transmission<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(mut self, size: usize, fill: F) -> R {
        if self.segment.is_none() && size > self.touch.uncut {
            self.segment = u16::try_from(self.touch.segment).ok();
        }
        let offload = self.offload();
        let before = self.ethernet.map_or(0, |_| ETHERNET);
        let mut fill = Some(fill);
        let mut result = None;
        let mut write = |bytes: &mut [u8]| {
            let packet = match self.ethernet {
                Some(header) => header.write(bytes),
                None => bytes,
            };
            if let Some(fill) = fill.take() {
                result = Some(fill(packet));
            }
            self.touch.up(packet);
            if self.offloads {
                set_pseudo_checksum(packet);
            }
            *self.sent = Sent::parse(packet, self.segment);
        };
        self.link.transmit(before + size, offload, &mut write);
        result.unwrap_or_else(|| unreachable!("a link has the frame written"))
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.segment = meta.segmentation_offload_size.map(core::num::NonZero::get);
    }
}
