//! Parsing and writing of TCP segments (RFC 9293 §3.1).
//!
//! smoltcp parses the header and the options. Headers are written here, with the options in the aligned
//! layout that RFC 7323 proposes. The checksum is computed in software, or left to the device (checksum
//! offload): the field then holds the sum of the pseudo header.

use core::net::IpAddr;

use hermit_tcp::{Flags, Header, Options, SackBlock, Segment, Seq, Timestamp};
use smoltcp::wire::{IpProtocol, TcpOption, TcpPacket, checksum};

use crate::wire::emit::{EthernetHeader, IpHeader};
use crate::wire::packet::Packet;

/// Size in bytes of a header without options.
pub(crate) const TCP: usize = 20;

/// Offset of the checksum in a header.
pub(crate) const CHECKSUM_OFFSET: u16 = 16;

/// ECN field of an IP header (RFC 3168 §5): its mask, and the values "ECN-capable transport" and "congestion
/// experienced".
pub(crate) const ECN_MASK: u8 = 3;
pub(crate) const ECN_CAPABLE: u8 = 2;
const ECN_MARKED: u8 = 3;

/// A received segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) segment: Segment<'a>,
}

impl<'a> Packet<'a> {
    /// Returns the TCP segment in the packet, if it is valid.
    pub(crate) fn tcp(&self, is_checked: bool) -> Option<Received<'a>> {
        let packet = TcpPacket::new_checked(self.payload).ok()?;
        let is_intact = is_checked || packet.verify_checksum(&self.source.into(), &self.destination.into());
        if !is_intact || packet.src_port() == 0 || packet.dst_port() == 0 {
            return None;
        }
        let flags = Flags::from_bits_retain(*self.payload.get(13)?);
        let has_ack = flags.contains(Flags::ACK);
        let header = Header {
            seq: Seq(packet.seq_number().0.cast_unsigned()),
            ack: Seq(if has_ack { packet.ack_number().0.cast_unsigned() } else { 0 }),
            flags,
            window: packet.window_len(),
            urgent: packet.urgent_at(),
            options: parse_options(packet.options()),
        };
        let payload = self.payload.get(usize::from(packet.header_len())..)?;
        let is_marked = self.traffic_class() & ECN_MASK == ECN_MARKED;
        Some(Received {
            source_port: packet.src_port(),
            destination_port: packet.dst_port(),
            segment: Segment { header, payload, is_marked },
        })
    }
}

/// Parses options. Unknown options, and all options after an invalid one, are ignored.
fn parse_options(mut bytes: &[u8]) -> Options {
    let mut options = Options::default();
    // Fast path: the layout of most segments (RFC 7323, appendix A).
    if let &[1, 1, 8, 10, a, b, c, d, e, f, g, h] = bytes {
        let [value, echo] = [[a, b, c, d], [e, f, g, h]].map(u32::from_be_bytes);
        options.timestamp = Some(Timestamp { value, echo });
        return options;
    }
    while let Ok((rest, option)) = TcpOption::parse(bytes) {
        match option {
            TcpOption::EndOfList => break,
            TcpOption::MaxSegmentSize(size) => options.mss = Some(size),
            TcpOption::WindowScale(scale) => options.window_scale = Some(scale),
            TcpOption::SackPermitted => options.sack_permitted = true,
            TcpOption::SackRange(ranges) => {
                for (start, end) in ranges.into_iter().flatten() {
                    options.sack.push(SackBlock { start: Seq(start), end: Seq(end) });
                }
            }
            TcpOption::TimeStamp { tsval, tsecr } => {
                options.timestamp = Some(Timestamp { value: tsval, echo: tsecr });
            }
            TcpOption::NoOperation | TcpOption::Unknown { .. } => (),
        }
        bytes = rest;
    }
    options
}

/// Writes bytes sequentially; drops bytes that do not fit.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some((place, rest)) = core::mem::take(&mut self.0).split_at_mut_checked(bytes.len()) {
            place.copy_from_slice(bytes);
            self.0 = rest;
        }
    }
}

/// Writes the header of a segment without a checksum, and returns the rest of the buffer for the data.
pub(crate) fn write_header<'a>(
    bytes: &'a mut [u8],
    source_port: u16,
    destination_port: u16,
    header: &Header,
) -> &'a mut [u8] {
    let size = TCP + header.options.size();
    let (head, payload) = bytes.split_at_mut(size);
    let words = u8::try_from(size / 4).unwrap_or(u8::MAX);
    let mut writer = Writer(head);
    writer.put(&source_port.to_be_bytes());
    writer.put(&destination_port.to_be_bytes());
    writer.put(&header.seq.0.to_be_bytes());
    writer.put(&header.ack.0.to_be_bytes());
    writer.put(&[words << 4, header.flags.bits()]);
    writer.put(&header.window.to_be_bytes());
    writer.put(&[0, 0]);
    writer.put(&header.urgent.to_be_bytes());
    write_options(&mut writer, &header.options);
    payload
}

/// Writes options with the padding that [`Options::size`] counts (RFC 7323, appendix A).
fn write_options(writer: &mut Writer<'_>, options: &Options) {
    const NO_OPERATION: u8 = 1;
    if let Some(mss) = options.mss {
        let [high, low] = mss.to_be_bytes();
        writer.put(&[2, 4, high, low]);
    }
    match (options.sack_permitted, options.timestamp) {
        (false, None) => (),
        (true, None) => writer.put(&[NO_OPERATION, NO_OPERATION, 4, 2]),
        (is_sack, Some(timestamp)) => {
            writer.put(if is_sack { &[4, 2] } else { &[NO_OPERATION, NO_OPERATION] });
            writer.put(&[8, 10]);
            writer.put(&timestamp.value.to_be_bytes());
            writer.put(&timestamp.echo.to_be_bytes());
        }
    }
    if let Some(scale) = options.window_scale {
        writer.put(&[NO_OPERATION, 3, 3, scale]);
    }
    let blocks = options.sack.as_slice();
    if !blocks.is_empty() {
        let size = u8::try_from(2 + 8 * blocks.len()).unwrap_or(u8::MAX);
        writer.put(&[NO_OPERATION, NO_OPERATION, 5, size]);
        for block in blocks {
            writer.put(&block.start.0.to_be_bytes());
            writer.put(&block.end.0.to_be_bytes());
        }
    }
}

/// Computation of the checksum of a sent segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChecksumBy {
    /// By the stack.
    Software,
    /// By the device (checksum offload), from the sum of the pseudo header.
    Device,
}

/// Fills in the checksum of a segment, or the sum of the pseudo header for the device.
pub(crate) fn fill_checksum(segment: &mut [u8], source: IpAddr, destination: IpAddr, by: ChecksumBy) {
    let (source, destination) = (source.into(), destination.into());
    let size = u32::try_from(segment.len()).unwrap_or(u32::MAX);
    let mut packet = TcpPacket::new_unchecked(segment);
    match by {
        ChecksumBy::Software => packet.fill_checksum(&source, &destination),
        ChecksumBy::Device => {
            packet.set_checksum(checksum::pseudo_header(&source, &destination, IpProtocol::Tcp, size));
        }
    }
}

/// A segment to be written into a frame, without its data.
pub(crate) struct OutgoingSegment<'a> {
    pub(crate) ethernet: EthernetHeader,
    pub(crate) ip: IpHeader,
    /// Local and remote port.
    pub(crate) ports: (u16, u16),
    pub(crate) header: &'a Header,
    pub(crate) checksum: ChecksumBy,
    /// Identification of an IPv4 packet that routers may fragment; `None` sets DF.
    pub(crate) identification: Option<u16>,
}

impl OutgoingSegment<'_> {
    /// Writes the frame into a buffer of exactly its size.
    pub(crate) fn write(&self, bytes: &mut [u8], data: impl IntoIterator<Item = impl AsRef<[u8]>>) {
        let packet = self.ethernet.write(bytes);
        self.ip.write(packet);
        if let Some(identification) = self.identification.filter(|_| self.ip.source.is_ipv4()) {
            IpHeader::write_fragment_v4(packet, identification, 0, true);
        }
        let segment = &mut packet[self.ip.size()..];
        let mut payload = Writer(write_header(segment, self.ports.0, self.ports.1, self.header));
        data.into_iter().for_each(|piece| payload.put(piece.as_ref()));
        fill_checksum(segment, self.ip.source, self.ip.destination, self.checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::{ChecksumBy, TCP, fill_checksum, write_header};
    use crate::wire::emit::IpHeader;
    use crate::wire::packet::Packet;
    use core::net::{IpAddr, Ipv4Addr};
    use hermit_tcp::{Flags, Header, Options, SackBlock, SackBlocks, Seq, Timestamp};
    use proptest::prelude::{any, prop};
    use proptest::{option, prop_assert_eq, proptest};
    use smoltcp::wire::IpProtocol;
    use std::vec;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    proptest! {
        #[test]
        fn written_segments_parse_back(
            numbers in any::<(u32, u32, u16, u16)>(),
            flags in any::<u8>(),
            mss in option::of(any::<u16>()),
            window_scale in option::of(0..15_u8),
            sack_permitted: bool,
            timestamp in option::of(any::<(u32, u32)>()),
            blocks in prop::collection::vec(any::<(u32, u32)>(), 0..4),
            data in prop::collection::vec(any::<u8>(), 0..10),
        ) {
            let (seq, ack, window, urgent) = numbers;
            let flags = Flags::from_bits_retain(flags) | Flags::ACK;
            let mut sack = SackBlocks::default();
            // SACK blocks do not fit if there are all other options.
            for &(start, end) in blocks.iter().filter(|_| mss.is_none() && window_scale.is_none()) {
                sack.push(SackBlock { start: Seq(start), end: Seq(end) });
            }
            let timestamp = timestamp.map(|(value, echo)| Timestamp { value, echo });
            let options = Options { mss, window_scale, sack_permitted, timestamp, sack };
            let header = Header { seq: Seq(seq), ack: Seq(ack), flags, window, urgent, options };
            let size = TCP + options.size() + data.len();
            prop_assert_eq!(options.size() % 4, 0);
            proptest::prop_assume!(options.size() <= 40);
            let ip = IpHeader {
                source: HERE, destination: HERE, protocol: IpProtocol::Tcp, size, hop_limit: 1, class: 3,
            };
            let mut bytes = vec![0xa5; 20 + size];
            let segment = ip.write(&mut bytes);
            write_header(segment, 1, 2, &header).copy_from_slice(&data);
            fill_checksum(segment, HERE, HERE, ChecksumBy::Software);
            let received = Packet::parse(&bytes).and_then(|packet| packet.tcp(false)).unwrap();
            prop_assert_eq!((received.source_port, received.destination_port), (1, 2));
            prop_assert_eq!(received.segment.header, header);
            prop_assert_eq!(received.segment.payload, &data[..]);
            prop_assert_eq!(received.segment.is_marked, true);
        }
    }
}
