//! What comes before each frame (virtio 1.2, section 5.1.6): which part of the work on it the receiver does.

use virtio_bindings::virtio_net::{
    VIRTIO_NET_F_CSUM, VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6,
    VIRTIO_NET_F_HOST_TSO4, VIRTIO_NET_F_HOST_TSO6, VIRTIO_NET_HDR_F_DATA_VALID, VIRTIO_NET_HDR_F_NEEDS_CSUM,
    VIRTIO_NET_HDR_GSO_NONE, VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6,
};

/// Bytes of a header.
pub const HEADER: usize = 12;

/// Bytes of a checksum.
const CHECKSUM: usize = 2;

/// The flags, and the kinds of segmentation, that this device knows.
const NEEDS_CHECKSUM: u8 = VIRTIO_NET_HDR_F_NEEDS_CSUM.to_le_bytes()[0];
const CHECKSUM_IS_GOOD: u8 = VIRTIO_NET_HDR_F_DATA_VALID.to_le_bytes()[0];
const WHOLE: u8 = VIRTIO_NET_HDR_GSO_NONE.to_le_bytes()[0];
const TCP4: u8 = VIRTIO_NET_HDR_GSO_TCPV4.to_le_bytes()[0];
const TCP6: u8 = VIRTIO_NET_HDR_GSO_TCPV6.to_le_bytes()[0];

/// What a receiver does with frames, so that the sender need not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Completes checksums.
    pub checksum: bool,
    /// Cuts long TCP segments over IPv4 into short ones, or takes them as they are.
    pub tcp4: bool,
    /// The same over IPv6.
    pub tcp6: bool,
}

impl Offloads {
    /// What the host does for the guest. Without checksums there is no segmentation (section 5.1.3.1).
    #[must_use]
    pub fn of_host(features: u64) -> Self {
        Self::from_bits(features, VIRTIO_NET_F_CSUM, VIRTIO_NET_F_HOST_TSO4, VIRTIO_NET_F_HOST_TSO6)
    }

    /// What the guest does for the host.
    #[must_use]
    pub fn of_guest(features: u64) -> Self {
        Self::from_bits(features, VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6)
    }

    fn from_bits(features: u64, checksum: u32, tcp4: u32, tcp6: u32) -> Self {
        let has = |bit: u32| features & 1 << bit != 0;
        let checksum = has(checksum);
        Self { checksum, tcp4: checksum && has(tcp4), tcp6: checksum && has(tcp6) }
    }

    /// Whether frames may be longer than the network takes.
    #[must_use]
    pub fn has_segmentation(self) -> bool {
        self.tcp4 || self.tcp6
    }
}

/// Why a frame goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    /// The receiver has not agreed to complete checksums.
    #[error("a checksum that nobody has agreed to complete")]
    Checksum,
    /// The checksum is not in the frame.
    #[error("a checksum outside the frame")]
    ChecksumPlace,
    /// The receiver has not agreed to cut such segments.
    #[error("segmentation that nobody has agreed to do")]
    Segmentation,
    /// Segments without data, or without a checksum, or headers longer than the frame.
    #[error("segmentation that makes no sense")]
    Segments,
}

/// A header (`struct virtio_net_hdr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// `VIRTIO_NET_HDR_F_*`.
    pub flags: u8,
    /// `VIRTIO_NET_HDR_GSO_*`.
    pub kind: u8,
    /// Bytes of Ethernet, IP and TCP headers.
    pub header_length: u16,
    /// Bytes of data of each segment.
    pub segment_size: u16,
    /// From where on the checksum counts.
    pub checksum_start: u16,
    /// Where the checksum is, from there.
    pub checksum_offset: u16,
    /// How many buffers the frame is in.
    pub buffers: u16,
}

impl Header {
    /// As it lies in memory.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER] {
        let [a, b] = self.header_length.to_le_bytes();
        let [c, d] = self.segment_size.to_le_bytes();
        let [e, f] = self.checksum_start.to_le_bytes();
        let [g, h] = self.checksum_offset.to_le_bytes();
        let [i, j] = self.buffers.to_le_bytes();
        [self.flags, self.kind, a, b, c, d, e, f, g, h, i, j]
    }

    /// What the frame's receiver, who has agreed to `offloads`, gets to see of the header.
    ///
    /// # Errors
    ///
    /// The frame would need more than that, or the header makes no sense for a frame of this length.
    pub fn checked(self, length: usize, offloads: Offloads) -> Result<Self, BadHeader> {
        let checksum = self.checked_checksum(length, offloads)?;
        let needs_checksum = checksum.flags & NEEDS_CHECKSUM != 0;
        let is_agreed = match self.kind {
            WHOLE => return Ok(checksum),
            TCP4 => offloads.tcp4,
            TCP6 => offloads.tcp6,
            _ => false,
        };
        if !is_agreed {
            return Err(BadHeader::Segmentation);
        }
        if !needs_checksum || self.segment_size == 0 || usize::from(self.header_length) > length {
            return Err(BadHeader::Segments);
        }
        let Self { kind, header_length, segment_size, .. } = self;
        Ok(Self { kind, header_length, segment_size, ..checksum })
    }

    fn checked_checksum(self, length: usize, offloads: Offloads) -> Result<Self, BadHeader> {
        if self.flags & NEEDS_CHECKSUM == 0 {
            let flags = if offloads.checksum { self.flags & CHECKSUM_IS_GOOD } else { 0 };
            return Ok(Self { flags, ..Self::default() });
        }
        if !offloads.checksum {
            return Err(BadHeader::Checksum);
        }
        let Self { checksum_start, checksum_offset, .. } = self;
        let end = usize::from(checksum_start) + usize::from(checksum_offset) + CHECKSUM;
        if end > length {
            return Err(BadHeader::ChecksumPlace);
        }
        Ok(Self { flags: NEEDS_CHECKSUM, checksum_start, checksum_offset, ..Self::default() })
    }
}

impl From<[u8; HEADER]> for Header {
    fn from([flags, kind, a, b, c, d, e, f, g, h, i, j]: [u8; HEADER]) -> Self {
        Self {
            flags,
            kind,
            header_length: u16::from_le_bytes([a, b]),
            segment_size: u16::from_le_bytes([c, d]),
            checksum_start: u16::from_le_bytes([e, f]),
            checksum_offset: u16::from_le_bytes([g, h]),
            buffers: u16::from_le_bytes([i, j]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BadHeader, HEADER, Header, Offloads};
    use proptest::prelude::*;

    const ALL: Offloads = Offloads { checksum: true, tcp4: true, tcp6: true };
    const NONE: Offloads = Offloads { checksum: false, tcp4: false, tcp6: false };

    /// A TCP segment over IPv4 of 3,000 bytes of data.
    const SEGMENT: Header = Header {
        flags: 1,
        kind: 1,
        header_length: 54,
        segment_size: 1460,
        checksum_start: 34,
        checksum_offset: 16,
        buffers: 0,
    };

    #[test]
    fn features_say_who_does_what() {
        let bits = |bits: &[u32]| bits.iter().fold(0, |all, bit| all | 1 << bit);
        assert_eq!(Offloads::of_host(bits(&[0, 11, 12])), ALL);
        assert_eq!(Offloads::of_guest(bits(&[1, 7, 8])), ALL);
        assert_eq!(Offloads::of_host(bits(&[1, 7, 8])), NONE);
        assert_eq!(Offloads::of_host(bits(&[11, 12])), NONE);
        assert!(!Offloads { checksum: true, ..NONE }.has_segmentation());
        assert!(Offloads { tcp6: true, ..NONE }.has_segmentation());
    }

    #[test]
    fn what_was_agreed_passes() {
        assert_eq!(SEGMENT.checked(3054, ALL), Ok(SEGMENT));
        let six = Header { kind: 4, ..SEGMENT };
        assert_eq!(six.checked(3054, ALL), Ok(six));
        let plain = Header { kind: 0, ..SEGMENT };
        let checksum = Header { header_length: 0, segment_size: 0, ..plain };
        assert_eq!(plain.checked(60, Offloads { checksum: true, ..NONE }), Ok(checksum));
        // Bits that mean nothing here, and what no flag speaks of.
        let odd = Header { flags: 0xfc, kind: 0, buffers: 9, ..SEGMENT };
        assert_eq!(odd.checked(60, ALL), Ok(Header::default()));
        let good = Header { flags: 2, ..Header::default() };
        assert_eq!(good.checked(60, ALL), Ok(good));
        assert_eq!(good.checked(60, NONE), Ok(Header::default()));
    }

    #[test]
    fn what_was_not_agreed_or_makes_no_sense_is_refused() {
        let cases = [
            (SEGMENT, 3054, NONE, BadHeader::Checksum),
            (SEGMENT, 51, ALL, BadHeader::ChecksumPlace),
            (SEGMENT, 53, ALL, BadHeader::Segments),
            (SEGMENT, 3054, Offloads { tcp4: false, ..ALL }, BadHeader::Segmentation),
            (Header { kind: 4, ..SEGMENT }, 3054, Offloads { tcp6: false, ..ALL }, BadHeader::Segmentation),
            // UDP, ECN.
            (Header { kind: 3, ..SEGMENT }, 3054, ALL, BadHeader::Segmentation),
            (Header { kind: 0x81, ..SEGMENT }, 3054, ALL, BadHeader::Segmentation),
            (Header { segment_size: 0, ..SEGMENT }, 3054, ALL, BadHeader::Segments),
            (Header { flags: 0, ..SEGMENT }, 3054, ALL, BadHeader::Segments),
            (Header { checksum_start: 0xffff, ..SEGMENT }, 0xffff, ALL, BadHeader::ChecksumPlace),
        ];
        for (header, length, offloads, expected) in cases {
            assert_eq!(header.checked(length, offloads), Err(expected), "{header:?}");
        }
        assert!(SEGMENT.checked(54, ALL).is_ok());
    }

    proptest! {
        #[test]
        fn bytes_are_a_header_and_back(bytes: [u8; HEADER]) {
            prop_assert_eq!(Header::from(bytes).to_bytes(), bytes);
        }

        /// Whatever a sender writes, the receiver sees what it has agreed to, and a checksum within the frame.
        #[test]
        fn what_passes_makes_sense(bytes: [u8; HEADER], length in 0usize..70_000, checksum: bool, tcp4: bool, tcp6: bool) {
            let offloads = Offloads { checksum, tcp4, tcp6 };
            if let Ok(header) = Header::from(bytes).checked(length, offloads) {
                prop_assert!(header.flags <= 2 && (checksum || header.flags == 0));
                let end = usize::from(header.checksum_start) + usize::from(header.checksum_offset);
                prop_assert!(header.flags != 1 || end + 2 <= length);
                prop_assert!(header.kind == 0 || (header.kind == 1 && tcp4) || (header.kind == 4 && tcp6));
                prop_assert!(header.kind == 0 || (header.flags == 1 && header.segment_size > 0));
                prop_assert_eq!(header.checked(length, offloads), Ok(header));
            }
        }
    }
}
