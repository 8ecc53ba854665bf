//! The header in front of each frame (virtio 1.2, section 5.1.6).

use virtio_spec::net::{F, HdrF, HdrGso};

use super::{ETHERNET_HEADER, MAX_FRAME, NetError, NetInfo};

/// Bytes of the header: the same for all devices that are not legacy ones.
pub(super) const HEADER: usize = 12;

/// Bytes of a checksum.
const CHECKSUM: usize = 2;

/// A checksum for the device to complete: that of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumOffload {
    /// Where in the frame the bytes begin that it is for; they go on to the frame's end.
    pub start: u16,
    /// Where in those bytes it is. The field holds the sum of the pseudo header, not complemented.
    pub offset: u16,
}

/// The version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// How the device is to cut up a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentationOffload {
    /// What the TCP header is behind of.
    pub version: IpVersion,
    /// Bytes of all headers together, from the frame's first byte on; each part gets them.
    pub header_size: u16,
    /// Maximum segment size: bytes of TCP payload in each segment.
    pub mss: u16,
}

/// What the device is to do with a frame; the default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOffload {
    /// Complete a checksum.
    pub checksum: Option<ChecksumOffload>,
    /// Cut it up; the checksum must be left to it, too.
    pub segment: Option<SegmentationOffload>,
}

/// What the device says of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxInfo {
    /// Whether the checksum of TCP or UDP need not be checked: the device has done so, or it is a frame from a neighbour on
    /// the same host, which was never on a wire and whose checksum is incomplete.
    pub checksum_valid: bool,
}

impl TxOffload {
    /// The header for a frame of so many bytes.
    pub(super) fn header(&self, info: &NetInfo, size: usize) -> Result<[u8; HEADER], NetError> {
        if !(ETHERNET_HEADER..=MAX_FRAME).contains(&size) {
            return Err(NetError::Size);
        }
        let mut header = [0; HEADER];
        if let Some(checksum) = self.checksum {
            if !info.tx_checksum || !is_inside(checksum.start, checksum.offset, size) {
                return Err(NetError::Offload);
            }
            header[0] = HdrF::NEEDS_CSUM.bits();
            header[6..8].copy_from_slice(&checksum.start.to_le_bytes());
            header[8..10].copy_from_slice(&checksum.offset.to_le_bytes());
        }
        if let Some(segment) = self.segment {
            let (kind, possible) = match segment.version {
                IpVersion::V4 => (HdrGso::Tcpv4, info.tso.v4),
                IpVersion::V6 => (HdrGso::Tcpv6, info.tso.v6),
            };
            let has_data = usize::from(segment.header_size) < size && segment.mss > 0;
            if !possible || !has_data || self.checksum.is_none() {
                return Err(NetError::Offload);
            }
            header[1] = kind.into();
            header[2..4].copy_from_slice(&segment.header_size.to_le_bytes());
            header[4..6].copy_from_slice(&segment.mss.to_le_bytes());
        }
        Ok(header)
    }
}

/// Whether a checksum is inside of a frame.
fn is_inside(start: u16, offset: u16, size: usize) -> bool {
    usize::from(start) + usize::from(offset) + CHECKSUM <= size
}

/// The header of a received frame, as the device wrote it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    flags: HdrF,
    segmented: u8,
    start: u16,
    offset: u16,
    /// How many buffers the frame is in, where that may be more than one.
    pub(super) buffers: u16,
}

impl Header {
    /// Reads it; `None` if it is not all there.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let [flags, segmented, _, _, _, _, a, b, c, d, e, f] = *bytes.first_chunk::<HEADER>()?;
        Some(Self {
            flags: HdrF::from_bits_retain(flags),
            segmented,
            start: u16::from_le_bytes([a, b]),
            offset: u16::from_le_bytes([c, d]),
            buffers: u16::from_le_bytes([e, f]),
        })
    }

    /// What there is to say about its frame of so many bytes; `None` if no such frame can come with these features.
    pub(super) fn check(&self, features: F, size: usize) -> Option<RxInfo> {
        let possible = match HdrGso::try_from(self.segmented & !u8::from(HdrGso::Ecn)) {
            Ok(HdrGso::None) => self.segmented == 0,
            Ok(HdrGso::Tcpv4) => features.contains(F::GUEST_TSO4),
            Ok(HdrGso::Tcpv6) => features.contains(F::GUEST_TSO6),
            _ => false,
        };
        let verifies = features.contains(F::GUEST_CSUM);
        let is_partial = self.flags.contains(HdrF::NEEDS_CSUM);
        if !possible
            || !(ETHERNET_HEADER..=MAX_FRAME).contains(&size)
            || is_partial && !(verifies && is_inside(self.start, self.offset, size))
        {
            return None;
        }
        let checksum_valid = verifies && (is_partial || self.flags.contains(HdrF::DATA_VALID));
        Some(RxInfo { checksum_valid })
    }
}
