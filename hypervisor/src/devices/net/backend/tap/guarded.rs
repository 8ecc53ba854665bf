//! Frames between a tap and a guest that an egress policy restricts.
//!
//! The guest may change its memory at any time: also a frame between its check and its transmission, or a
//! received frame before the filter reads it. So the front of each frame, which has the headers, is copied to
//! memory of uhyve. The filter examines this copy. A frame is sent with the copy in place of its front, and
//! the front of a received frame is copied to the guest after the filter has seen it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use vm_memory::VolatileSlice;

use super::super::iovec::{self, gather, scatter};
use crate::devices::net::egress::EgressFilter;
use crate::devices::net::header::{VNET_HEADER_SIZE, VnetHeader};

/// Maximum size in bytes of the front of a frame: the headers of IP and TCP, and a few extension headers.
const FRONT: usize = 256;

/// Sends a frame if the policy admits it, and returns the number of bytes sent. Returns `Ok(None)` if the
/// policy drops the frame.
///
/// # Errors
///
/// The host's error.
pub(super) fn send(
    tap: &File,
    header: VnetHeader,
    frame: &[VolatileSlice<'_>],
    egress: &mut EgressFilter,
) -> io::Result<Option<usize>> {
    let (front, rest) = split(frame, FRONT)?;
    let mut head = header.to_bytes().to_vec();
    gather(&front, &mut head);
    let Some(end) = egress.admit(head.get(VNET_HEADER_SIZE..).unwrap_or_default(), Instant::now) else {
        return Ok(None);
    };
    // The host writes the checksum later, at an offset that the guest chooses. It must not overwrite bytes
    // that the filter has checked.
    if header.checksum_field().is_some_and(|field| field < end) {
        return Ok(None);
    }
    iovec::write(tap.as_fd(), &head, &rest).map(Some)
}

/// Receives a frame into `buffers`; returns its vnet header and its size in bytes.
///
/// # Errors
///
/// The host's error.
pub(super) fn receive(
    tap: &File,
    buffers: &[VolatileSlice<'_>],
    egress: &mut EgressFilter,
) -> io::Result<(VnetHeader, usize)> {
    let (front, rest) = split(buffers, FRONT)?;
    let mut head = [0; VNET_HEADER_SIZE + FRONT];
    // Reads no more than the buffers hold: a longer frame is truncated, as without a policy.
    let size = VNET_HEADER_SIZE + front.iter().map(VolatileSlice::len).sum::<usize>();
    let head = head.get_mut(..size).unwrap_or_default();
    let length = iovec::read(tap.as_fd(), head, &rest)?.saturating_sub(VNET_HEADER_SIZE);
    let (header, bytes) = head.split_first_chunk::<VNET_HEADER_SIZE>().ok_or(io::ErrorKind::InvalidData)?;
    let bytes = bytes.get(..length).unwrap_or(bytes);
    egress.note(bytes, Instant::now);
    scatter(bytes, &front);
    Ok(((*header).into(), length))
}

/// Slices of memory.
type Slices<'a> = Vec<VolatileSlice<'a>>;

/// Splits a list of buffers after `size` bytes. If the buffers are smaller, the second part is empty.
fn split<'a>(buffers: &[VolatileSlice<'a>], size: usize) -> io::Result<(Slices<'a>, Slices<'a>)> {
    let (mut front, mut rest, mut left) = (Vec::new(), Vec::new(), size);
    for buffer in buffers {
        let count = left.min(buffer.len());
        left -= count;
        // Cannot fail: no buffer is shorter than `count`.
        let (first, second) = buffer.split_at(count).map_err(io::Error::other)?;
        front.extend((count > 0).then_some(first));
        rest.extend((!second.is_empty()).then_some(second));
    }
    Ok((front, rest))
}

#[cfg(test)]
mod tests {
    use super::{FRONT, receive, send};
    use crate::devices::net::egress::EgressFilter;
    use crate::devices::net::egress::test_frames::{SYN, SYN_ACK, from, tcp, udp, v4};
    use crate::devices::net::header::{VNET_HEADER_SIZE, VnetHeader};
    use hermit_options::egress::{EgressOptions, EgressPolicy};
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use vm_memory::VolatileSlice;

    /// Returns a replacement for a tap, its other end, and a filter. The replacement is a datagram socket,
    /// because it sends and receives a whole frame in each call, as a tap does.
    fn tap() -> (File, File, EgressFilter) {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let mut options = EgressOptions::default();
        options.close().unwrap();
        options.allow("10.0.0.0/8".parse().unwrap()).unwrap();
        let policy = EgressPolicy::of_interface(&options, &[]).unwrap();
        (OwnedFd::from(ours).into(), OwnedFd::from(theirs).into(), EgressFilter::new(policy))
    }

    /// Buffers of these sizes, and the rest of the bytes.
    fn buffers<'a>(mut bytes: &'a mut [u8], sizes: &[usize]) -> Vec<VolatileSlice<'a>> {
        let mut slices = Vec::new();
        for &size in sizes {
            let (front, rest) = bytes.split_at_mut(size.min(bytes.len()));
            slices.push(front.into());
            bytes = rest;
        }
        slices.push(bytes.into());
        slices
    }

    #[test]
    fn frames_pass_whole_whatever_their_buffers_are() {
        let (tap, mut other, mut egress) = tap();
        for length in [0, 1, FRONT - 62, FRONT - 61, 2000] {
            let frame = [v4("10.0.0.1", 6, &tcp(80, SYN)), vec![9; length]].concat();
            for sizes in [&[][..], &[14], &[1, 20, 1, 300], &[FRONT], &[FRONT - 1, 2]] {
                let mut copy = frame.clone();
                let sent =
                    send(&tap, VnetHeader::default(), &buffers(&mut copy, sizes), &mut egress).unwrap();
                assert_eq!(sent, Some(VNET_HEADER_SIZE + frame.len()));
                let mut sent = [0; 4096];
                let size = other.read(&mut sent).unwrap();
                assert_eq!(&sent[VNET_HEADER_SIZE..size], frame);
                other.write_all(&sent[..size]).unwrap();
                let mut received = vec![0; 3000];
                let result = receive(&tap, &buffers(&mut received, sizes), &mut egress).unwrap();
                assert_eq!(result, (VnetHeader::default(), frame.len()));
                assert_eq!(&received[..frame.len()], frame);
            }
        }
        other.write_all(&[0; VNET_HEADER_SIZE + 100]).unwrap();
        let mut short = [0; 60];
        assert_eq!(receive(&tap, &buffers(&mut short, &[50]), &mut egress).unwrap().1, 60);
    }

    #[test]
    fn frame_for_a_closed_address_is_dropped_unless_it_answers() {
        let (tap, mut other, mut egress) = tap();
        let admitted = |egress: &mut EgressFilter, mut frame: Vec<u8>| {
            send(&tap, VnetHeader::default(), &buffers(&mut frame, &[30]), egress).unwrap().is_some()
        };
        assert!(!admitted(&mut egress, v4("192.0.2.1", 6, &tcp(80, SYN))));
        assert!(admitted(&mut egress, v4("192.0.2.1", 6, &tcp(80, SYN_ACK))));
        let answer = v4("192.0.2.1", 17, &udp(53, 4000));
        assert!(!admitted(&mut egress, answer.clone()));
        let request = [vec![0; VNET_HEADER_SIZE], from(&v4("192.0.2.1", 17, &udp(4000, 53)))].concat();
        other.write_all(&request).unwrap();
        receive(&tap, &buffers(&mut [0; 2000], &[20]), &mut egress).unwrap();
        assert!(admitted(&mut egress, answer));
    }

    #[test]
    fn checksum_that_would_overwrite_what_was_checked_is_dropped() {
        let (tap, _other, mut egress) = tap();
        let partial = |csum_start, csum_offset| VnetHeader {
            flags: 1,
            csum_start,
            csum_offset,
            ..VnetHeader::default()
        };
        // The field of TCP; the flags of TCP, the destination, and the EtherType.
        for (start, offset, is_sent) in [(34, 16, true), (34, 12, false), (14, 16, false), (0, 12, false)] {
            let mut frame = v4("192.0.2.1", 6, &tcp(80, SYN_ACK));
            let sent = send(&tap, partial(start, offset), &buffers(&mut frame, &[]), &mut egress).unwrap();
            assert_eq!(sent.is_some(), is_sent, "{start} {offset}");
        }
    }
}
