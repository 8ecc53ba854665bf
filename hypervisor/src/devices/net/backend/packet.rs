//! Packets of IP in Ethernet frames.

/// Offsets in bytes of the EtherType, and of the packet behind it.
const ETHER_TYPE: usize = 12;
const PAYLOAD: usize = ETHER_TYPE + 2;

/// A packet, from its header on.
pub(super) enum Packet<'a> {
    V4(&'a [u8]),
    V6(&'a [u8]),
}

impl<'a> Packet<'a> {
    /// The packet in a frame; `None` if it has none.
    pub(super) fn in_frame(frame: &'a [u8]) -> Option<Self> {
        let (header, packet) = frame.split_at_checked(PAYLOAD)?;
        match header.get(ETHER_TYPE..)? {
            [0x08, 0x00] => Some(Self::V4(packet)),
            [0x86, 0xdd] => Some(Self::V6(packet)),
            _ => None,
        }
    }
}
