//! Header of each frame (`struct virtio_net_hdr`, virtio 1.2 §5.1.6). It describes the work that the frame's
//! sender leaves to the receiver. Linux's vnet header has the same layout.
//!
//! A sender can leave two kinds of work to its receiver: to complete a checksum
//! (`VIRTIO_NET_HDR_F_NEEDS_CSUM`), and to split a large TCP segment (`VIRTIO_NET_HDR_GSO_*`). It may do so
//! only if the receiver has negotiated the offload ([`Offloads`]). Neither the guest nor the backend is
//! trusted. So [`VnetHeader::validate`] checks each header against the frame's length and the receiver's
//! offloads before the device passes the header on.

use virtio_bindings::virtio_net::{
    VIRTIO_NET_F_CSUM, VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6,
    VIRTIO_NET_F_HOST_TSO4, VIRTIO_NET_F_HOST_TSO6, VIRTIO_NET_HDR_F_DATA_VALID, VIRTIO_NET_HDR_F_NEEDS_CSUM,
    VIRTIO_NET_HDR_GSO_NONE, VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6,
};

/// Size in bytes of a header.
pub const VNET_HEADER_SIZE: usize = 12;

/// Size in bytes of a TCP or UDP checksum.
const CHECKSUM_SIZE: usize = 2;

/// Header flags that the device supports.
const NEEDS_CSUM: u8 = VIRTIO_NET_HDR_F_NEEDS_CSUM.to_le_bytes()[0];
const DATA_VALID: u8 = VIRTIO_NET_HDR_F_DATA_VALID.to_le_bytes()[0];

/// GSO types that the device supports.
const GSO_NONE: u8 = VIRTIO_NET_HDR_GSO_NONE.to_le_bytes()[0];
const GSO_TCPV4: u8 = VIRTIO_NET_HDR_GSO_TCPV4.to_le_bytes()[0];
const GSO_TCPV6: u8 = VIRTIO_NET_HDR_GSO_TCPV6.to_le_bytes()[0];

/// Offloads that a receiver of frames has negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Checksum offload: the receiver completes partial checksums.
    pub checksum: bool,
    /// TCP segmentation offload over IPv4: the receiver segments a large TCP segment, or consumes it whole.
    pub tcp4: bool,
    /// TCP segmentation offload over IPv6.
    pub tcp6: bool,
}

impl Offloads {
    /// Returns the host's offloads according to the negotiated features. Segmentation requires checksum
    /// offload (virtio 1.2 §5.1.3.1).
    #[must_use]
    pub fn of_host(features: u64) -> Self {
        Self::from_bits(features, VIRTIO_NET_F_CSUM, VIRTIO_NET_F_HOST_TSO4, VIRTIO_NET_F_HOST_TSO6)
    }

    /// Returns the guest's offloads according to the negotiated features.
    #[must_use]
    pub fn of_guest(features: u64) -> Self {
        Self::from_bits(features, VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6)
    }

    fn from_bits(features: u64, checksum: u32, tcp4: u32, tcp6: u32) -> Self {
        let has = |bit: u32| features & 1 << bit != 0;
        let checksum = has(checksum);
        Self { checksum, tcp4: checksum && has(tcp4), tcp6: checksum && has(tcp6) }
    }

    /// Returns true if TCP segmentation offload is negotiated, so that frames may exceed the MTU.
    #[must_use]
    pub fn has_segmentation(self) -> bool {
        self.tcp4 || self.tcp6
    }
}

/// Reason why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// A partial checksum, but the receiver has not negotiated checksum offload.
    #[error("partial checksum without negotiated checksum offload")]
    ChecksumOffload,
    /// A partial checksum whose field is not in the frame.
    #[error("checksum field outside the frame")]
    ChecksumRange,
    /// A GSO type that the receiver has not negotiated.
    #[error("segmentation offload that was not negotiated")]
    SegmentationOffload,
    /// A segmented frame has a segment size of zero, no partial checksum, or headers longer than the frame.
    #[error("invalid segmentation offload")]
    Segmentation,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// `VIRTIO_NET_HDR_F_*`.
    pub flags: u8,
    /// `VIRTIO_NET_HDR_GSO_*`.
    pub gso_type: u8,
    /// Size in bytes of the Ethernet, IP and TCP headers.
    pub hdr_len: u16,
    /// Maximum size in bytes of the data of each segment.
    pub gso_size: u16,
    /// Offset in the frame at which the checksummed data starts.
    pub csum_start: u16,
    /// Offset of the checksum field from `csum_start`.
    pub csum_offset: u16,
    /// Number of descriptor chains that the frame spans.
    pub num_buffers: u16,
}

impl VnetHeader {
    /// Returns the little-endian representation of the header.
    #[must_use]
    pub fn to_bytes(self) -> [u8; VNET_HEADER_SIZE] {
        let [a, b] = self.hdr_len.to_le_bytes();
        let [c, d] = self.gso_size.to_le_bytes();
        let [e, f] = self.csum_start.to_le_bytes();
        let [g, h] = self.csum_offset.to_le_bytes();
        let [i, j] = self.num_buffers.to_le_bytes();
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h, i, j]
    }

    /// Returns the header of a frame with a partial checksum. The checksummed data starts at `csum_start` in
    /// the frame, and the checksum field is `csum_offset` bytes after that. If the receiver must segment the
    /// frame, `segment` has the data size of a segment and the size of all headers, in bytes.
    #[must_use]
    pub fn partial(csum_start: u16, csum_offset: u16, segment: Option<(u16, u16)>, is_v4: bool) -> Self {
        let header = Self { flags: NEEDS_CSUM, csum_start, csum_offset, ..Self::default() };
        let Some((gso_size, hdr_len)) = segment else { return header };
        Self { gso_type: if is_v4 { GSO_TCPV4 } else { GSO_TCPV6 }, gso_size, hdr_len, ..header }
    }

    /// Returns the offset in the frame of the checksum field that the receiver must complete; `None` if the
    /// checksum is complete.
    #[must_use]
    pub fn checksum_field(self) -> Option<usize> {
        let is_partial = self.flags & NEEDS_CSUM != 0;
        is_partial.then_some(usize::from(self.csum_start) + usize::from(self.csum_offset))
    }

    /// Checks the header of a frame of `length` bytes for a receiver with these offloads. Returns a sanitised
    /// header: `num_buffers`, and all flags and fields without meaning, are zero.
    ///
    /// # Errors
    ///
    /// The frame needs an offload that the receiver lacks, or the header is invalid for a frame of this
    /// length.
    pub fn validate(self, length: usize, offloads: Offloads) -> Result<Self, HeaderError> {
        let checksum = self.validate_checksum(length, offloads)?;
        let needs_checksum = checksum.flags & NEEDS_CSUM != 0;
        let is_negotiated = match self.gso_type {
            GSO_NONE => return Ok(checksum),
            GSO_TCPV4 => offloads.tcp4,
            GSO_TCPV6 => offloads.tcp6,
            _ => false,
        };
        if !is_negotiated {
            return Err(HeaderError::SegmentationOffload);
        }
        if !needs_checksum || self.gso_size == 0 || usize::from(self.hdr_len) > length {
            return Err(HeaderError::Segmentation);
        }
        let Self { gso_type, hdr_len, gso_size, .. } = self;
        Ok(Self { gso_type, hdr_len, gso_size, ..checksum })
    }

    fn validate_checksum(self, length: usize, offloads: Offloads) -> Result<Self, HeaderError> {
        if self.flags & NEEDS_CSUM == 0 {
            let flags = if offloads.checksum { self.flags & DATA_VALID } else { 0 };
            return Ok(Self { flags, ..Self::default() });
        }
        if !offloads.checksum {
            return Err(HeaderError::ChecksumOffload);
        }
        let Self { csum_start, csum_offset, .. } = self;
        let end = usize::from(csum_start) + usize::from(csum_offset) + CHECKSUM_SIZE;
        if end > length {
            return Err(HeaderError::ChecksumRange);
        }
        Ok(Self { flags: NEEDS_CSUM, csum_start, csum_offset, ..Self::default() })
    }
}

impl From<[u8; VNET_HEADER_SIZE]> for VnetHeader {
    fn from([flags, gso_type, a, b, c, d, e, f, g, h, i, j]: [u8; VNET_HEADER_SIZE]) -> Self {
        Self {
            flags,
            gso_type,
            hdr_len: u16::from_le_bytes([a, b]),
            gso_size: u16::from_le_bytes([c, d]),
            csum_start: u16::from_le_bytes([e, f]),
            csum_offset: u16::from_le_bytes([g, h]),
            num_buffers: u16::from_le_bytes([i, j]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HeaderError, Offloads, VNET_HEADER_SIZE, VnetHeader};
    use proptest::prelude::*;

    const ALL: Offloads = Offloads { checksum: true, tcp4: true, tcp6: true };
    const NONE: Offloads = Offloads { checksum: false, tcp4: false, tcp6: false };

    /// A large TCP segment over IPv4.
    const SEGMENT: VnetHeader = VnetHeader {
        flags: 1,
        gso_type: 1,
        hdr_len: 54,
        gso_size: 1460,
        csum_start: 34,
        csum_offset: 16,
        num_buffers: 0,
    };

    #[test]
    fn offloads_follow_from_the_negotiated_features() {
        let bits = |bits: &[u32]| bits.iter().fold(0, |all, bit| all | 1 << bit);
        assert_eq!(Offloads::of_host(bits(&[0, 11, 12])), ALL);
        assert_eq!(Offloads::of_guest(bits(&[1, 7, 8])), ALL);
        assert_eq!(Offloads::of_host(bits(&[1, 7, 8])), NONE);
        assert_eq!(Offloads::of_host(bits(&[11, 12])), NONE);
        assert!(!Offloads { checksum: true, ..NONE }.has_segmentation());
        assert!(Offloads { tcp6: true, ..NONE }.has_segmentation());
    }

    #[test]
    fn negotiated_offloads_are_valid() {
        assert_eq!(SEGMENT.validate(3054, ALL), Ok(SEGMENT));
        let v6 = VnetHeader { gso_type: 4, ..SEGMENT };
        assert_eq!(v6.validate(3054, ALL), Ok(v6));
        let plain = VnetHeader { gso_type: 0, ..SEGMENT };
        let checksum = VnetHeader { hdr_len: 0, gso_size: 0, ..plain };
        assert_eq!(plain.validate(60, Offloads { checksum: true, ..NONE }), Ok(checksum));
        // Unknown flags, and fields that are valid only with a flag that is not set.
        let unknown = VnetHeader { flags: 0xfc, gso_type: 0, num_buffers: 9, ..SEGMENT };
        assert_eq!(unknown.validate(60, ALL), Ok(VnetHeader::default()));
        let valid = VnetHeader { flags: 2, ..VnetHeader::default() };
        assert_eq!(valid.validate(60, ALL), Ok(valid));
        assert_eq!(valid.validate(60, NONE), Ok(VnetHeader::default()));
    }

    #[test]
    fn invalid_or_unnegotiated_offloads_are_rejected() {
        let cases = [
            (SEGMENT, 3054, NONE, HeaderError::ChecksumOffload),
            (SEGMENT, 51, ALL, HeaderError::ChecksumRange),
            (SEGMENT, 53, ALL, HeaderError::Segmentation),
            (SEGMENT, 3054, Offloads { tcp4: false, ..ALL }, HeaderError::SegmentationOffload),
            (
                VnetHeader { gso_type: 4, ..SEGMENT },
                3054,
                Offloads { tcp6: false, ..ALL },
                HeaderError::SegmentationOffload,
            ),
            // UDP, ECN.
            (VnetHeader { gso_type: 3, ..SEGMENT }, 3054, ALL, HeaderError::SegmentationOffload),
            (VnetHeader { gso_type: 0x81, ..SEGMENT }, 3054, ALL, HeaderError::SegmentationOffload),
            (VnetHeader { gso_size: 0, ..SEGMENT }, 3054, ALL, HeaderError::Segmentation),
            (VnetHeader { flags: 0, ..SEGMENT }, 3054, ALL, HeaderError::Segmentation),
            (VnetHeader { csum_start: 0xffff, ..SEGMENT }, 0xffff, ALL, HeaderError::ChecksumRange),
        ];
        for (header, length, offloads, expected) in cases {
            assert_eq!(header.validate(length, offloads), Err(expected), "{header:?}");
        }
        assert!(SEGMENT.validate(54, ALL).is_ok());
    }

    proptest! {
        #[test]
        fn header_survives_a_round_trip_through_bytes(bytes: [u8; VNET_HEADER_SIZE]) {
            prop_assert_eq!(VnetHeader::from(bytes).to_bytes(), bytes);
        }

        /// Whatever header the sender passes, the receiver sees only negotiated offloads, and a checksum
        /// field within the frame.
        #[test]
        fn validated_header_has_only_negotiated_offloads(bytes: [u8; VNET_HEADER_SIZE], length in 0usize..70_000, checksum: bool, tcp4: bool, tcp6: bool) {
            let offloads = Offloads { checksum, tcp4, tcp6 };
            if let Ok(header) = VnetHeader::from(bytes).validate(length, offloads) {
                prop_assert!(header.flags <= 2 && (checksum || header.flags == 0));
                let end = usize::from(header.csum_start) + usize::from(header.csum_offset);
                prop_assert!(header.flags != 1 || end + 2 <= length);
                prop_assert!(header.gso_type == 0 || (header.gso_type == 1 && tcp4) || (header.gso_type == 4 && tcp6));
                prop_assert!(header.gso_type == 0 || (header.flags == 1 && header.gso_size > 0));
                prop_assert_eq!(header.validate(length, offloads), Ok(header));
            }
        }
    }
}
