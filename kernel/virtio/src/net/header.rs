//! The header that precedes each frame, `virtio_net_hdr` (virtio 1.2, section 5.1.6).

use virtio_spec::net::{F, HdrF, HdrGso};

use super::{ETHERNET_HEADER, MAX_FRAME, NetError, NetInfo};

/// Size of the header in bytes, for all non-legacy devices.
pub(super) const HEADER_SIZE: usize = 12;

/// Size of a checksum in bytes.
const CHECKSUM_SIZE: usize = 2;

/// A TCP or UDP checksum that the device completes (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumOffload {
    /// Offset in the frame at which the summed bytes begin (`csum_start`); they extend to the frame's end.
    pub start: u16,
    /// Offset of the checksum from `start` (`csum_offset`). The field holds the sum of the pseudo header, not
    /// complemented.
    pub offset: u16,
}

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Segmentation of a large TCP segment by the device (TSO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentationOffload {
    /// IP version of the packet.
    pub version: IpVersion,
    /// Size of Ethernet, IP and TCP headers, in bytes (`hdr_len`); each segment gets a copy.
    pub header_size: u16,
    /// Maximum TCP payload of a segment, in bytes (`gso_size`).
    pub mss: u16,
}

/// Work that the device does on a transmitted frame; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOffload {
    /// Checksum to complete.
    pub checksum: Option<ChecksumOffload>,
    /// Segmentation, which requires a checksum to complete.
    pub segment: Option<SegmentationOffload>,
}

/// Metadata of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxInfo {
    /// True if the TCP or UDP checksum needs no validation. Either the device has validated it, or the frame
    /// has a partial checksum: it comes from the same host and was never on a wire.
    pub checksum_valid: bool,
}

impl TxOffload {
    /// Encodes the header of a frame of `size` bytes.
    pub(super) fn header(&self, info: &NetInfo, size: usize) -> Result<[u8; HEADER_SIZE], NetError> {
        if !(ETHERNET_HEADER..=MAX_FRAME).contains(&size) {
            return Err(NetError::Size);
        }
        let mut header = [0; HEADER_SIZE];
        if let Some(checksum) = self.checksum {
            if !info.tx_checksum || !is_inside_frame(checksum.start, checksum.offset, size) {
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

/// Returns true if a checksum lies inside a frame.
fn is_inside_frame(start: u16, offset: u16, size: usize) -> bool {
    usize::from(start) + usize::from(offset) + CHECKSUM_SIZE <= size
}

/// Header of a received frame, as written by the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetHeader {
    flags: HdrF,
    gso_type: u8,
    start: u16,
    offset: u16,
    /// Number of buffers of the frame (`num_buffers`), with mergeable buffers.
    pub(super) buffers: u16,
}

impl NetHeader {
    /// Decodes the header. Returns `None` if it is truncated.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let [flags, gso_type, _, _, _, _, a, b, c, d, e, f] = *bytes.first_chunk::<HEADER_SIZE>()?;
        Some(Self {
            flags: HdrF::from_bits_retain(flags),
            gso_type,
            start: u16::from_le_bytes([a, b]),
            offset: u16::from_le_bytes([c, d]),
            buffers: u16::from_le_bytes([e, f]),
        })
    }

    /// Validates the header of a frame of `size` bytes. Returns `None` if the device must not send such a
    /// frame with these features.
    pub(super) fn check(&self, features: F, size: usize) -> Option<RxInfo> {
        let possible = match HdrGso::try_from(self.gso_type & !u8::from(HdrGso::Ecn)) {
            Ok(HdrGso::None) => self.gso_type == 0,
            Ok(HdrGso::Tcpv4) => features.contains(F::GUEST_TSO4),
            Ok(HdrGso::Tcpv6) => features.contains(F::GUEST_TSO6),
            _ => false,
        };
        let verifies = features.contains(F::GUEST_CSUM);
        let is_partial = self.flags.contains(HdrF::NEEDS_CSUM);
        if !possible
            || !(ETHERNET_HEADER..=MAX_FRAME).contains(&size)
            || is_partial && !(verifies && is_inside_frame(self.start, self.offset, size))
        {
            return None;
        }
        let checksum_valid = verifies && (is_partial || self.flags.contains(HdrF::DATA_VALID));
        Some(RxInfo { checksum_valid })
    }
}
