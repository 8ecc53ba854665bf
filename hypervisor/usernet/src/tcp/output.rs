//! Segments for the guest.
//!
//! The guest's driver provides space for a frame, and the flow decides what to send: a SYN, data, a FIN, a
//! window probe, or an acknowledgement. Data is read from the socket directly into the guest's space. The
//! size of the data is known only after that, so the headers are written last, to a separate buffer. Every
//! segment carries the current acknowledgement and window. If the guest accepts large segments (TSO), one
//! frame may have up to 64 KiB of data.

use std::io::ErrorKind;

use hermit_tcp::Flags;

use super::flow::{AckDue, Flow, Phase};
use crate::config::Config;
use crate::emit::{Offload, TcpHeader, ip_offset};
use crate::host::Host;
use crate::parse::{IPV4, IPV6, TCP};

/// Maximum size in bytes of an IP packet. A large segment may have this size, because the guest takes it
/// unsegmented.
const MAX_PACKET: usize = 65_535;

/// Limits of frames for the guest, as its network driver has set them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size in bytes of a frame.
    pub max_frame: usize,
    /// True if a frame may have the TCP data of several segments (TSO): over IPv4, and over IPv6.
    pub has_large_segments: (bool, bool),
}

/// A frame for the guest. Its headers and its data are in different places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Number of bytes of data in the guest's space. They begin after room for the headers.
    pub data: usize,
    /// Checksum and segmentation that are left to the receiver.
    pub offload: Offload,
}

/// Result of asking a flow for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A segment.
    Segment(Output),
    /// There is no segment.
    Nothing,
    /// The socket has failed.
    Failed,
}

/// Buffers for a segment: `head` for its headers, `space` (guest memory) for its data.
pub(crate) struct Place<'a, 's, H: Host> {
    pub(crate) head: &'a mut Vec<u8>,
    pub(crate) space: &'a mut H::Space<'s>,
    pub(crate) limits: Limits,
}

impl<S> Flow<S> {
    /// Writes the next segment for the guest, if the flow has one.
    pub(crate) fn next_segment<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        config: &Config,
        place: &mut Place<'_, '_, H>,
    ) -> Next {
        let now = host.now();
        match self.phase {
            Phase::Connecting => return Next::Nothing,
            Phase::SynSent | Phase::SynReceived => {
                if !self.outgoing.is_due {
                    return Next::Nothing;
                }
                self.outgoing.is_due = false;
                self.outgoing.nxt = self.outgoing.una;
                let output = self.write(config, place, Flags::SYN, 0);
                self.outgoing.advance(1, now);
                return Next::Segment(output);
            }
            Phase::Established => {}
        }
        match self.read(host, config, place) {
            Ok(0) => {}
            Ok(length) => {
                let output = self.write(config, place, Flags::PSH, length);
                self.outgoing.advance(u32::try_from(length).unwrap_or(u32::MAX), now);
                return Next::Segment(self.segmented(config, output));
            }
            Err(_) => return Next::Failed,
        }
        if self.outgoing.fin == Some(self.outgoing.nxt) {
            let output = self.write(config, place, Flags::FIN, 0);
            self.outgoing.advance(1, now);
            return Next::Segment(output);
        }
        if self.outgoing.is_due {
            // A window probe is a segment with the sequence number SND.NXT - 1. The guest answers with an
            // acknowledgement, which has its current window.
            self.outgoing.is_due = false;
            let nxt = self.outgoing.nxt;
            self.outgoing.nxt = nxt - 1;
            let output = self.write(config, place, Flags::empty(), 0);
            self.outgoing.nxt = nxt;
            return Next::Segment(output);
        }
        if self.incoming.ack == AckDue::Now {
            return Next::Segment(self.write(config, place, Flags::empty(), 0));
        }
        Next::Nothing
    }

    /// Reads data for the next segment from the socket. Returns the number of bytes, 0 if there is no data.
    fn read<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        config: &Config,
        place: &mut Place<'_, '_, H>,
    ) -> Result<usize, ErrorKind> {
        let max = self.max_data(config, place.limits).min(self.outgoing.window() as usize);
        let outgoing = &mut self.outgoing;
        let is_at_end = outgoing.fin.is_some_and(|fin| fin.is_up_to(outgoing.nxt));
        if !outgoing.is_readable || is_at_end {
            return Ok(0);
        }
        if max == 0 {
            // The guest will announce when its window opens, but this segment may be lost. So the flow probes
            // the window after a timeout.
            outgoing.start_probe_timer(host.now());
            return Ok(0);
        }
        let offset = ip_offset(self.ends.peer.is_ipv4()) + TCP;
        match host.peek(&self.stream, place.space, offset..offset + max) {
            Ok(0) => {
                outgoing.is_readable = false;
                outgoing.fin = Some(outgoing.nxt);
                Ok(0)
            }
            Ok(length) => {
                // If the socket returns fewer bytes than requested, it is empty, and need not be read before
                // its next event. The exception is a stream that ends: its end must still be read.
                outgoing.is_readable = length >= max || outgoing.has_hung_up || outgoing.fin.is_some();
                Ok(length.min(max))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                outgoing.is_readable = false;
                Ok(0)
            }
            Err(error) => Err(error.kind()),
        }
    }

    /// Returns the maximum number of bytes of data in a frame.
    fn max_data(&self, config: &Config, limits: Limits) -> usize {
        let is_v4 = self.ends.peer.is_ipv4();
        let headers = ip_offset(is_v4) + TCP;
        let (v4, v6) = limits.has_large_segments;
        let is_large = if is_v4 { v4 } else { v6 };
        let segment = usize::from(self.segment_size(config));
        let max = if is_large { MAX_PACKET - TCP - if is_v4 { IPV4 } else { 0 } } else { segment };
        max.min(limits.max_frame.saturating_sub(headers))
    }

    /// Returns the maximum number of bytes of data in a segment.
    fn segment_size(&self, config: &Config) -> u16 {
        self.outgoing.mss.min(mss(config.mtu, self.ends.peer.is_ipv4()))
    }

    /// Sets the segment size of an output whose data does not fit into one segment.
    fn segmented(&self, config: &Config, output: Output) -> Output {
        let size = self.segment_size(config);
        let is_large = output.data > usize::from(size);
        Output { offload: Offload { segment_size: is_large.then_some(size), ..output.offload }, ..output }
    }

    /// Writes the headers of a segment with the sequence number [`super::flow::Outgoing::nxt`]. The segment
    /// acknowledges all received data.
    fn write<H: Host<Stream = S>>(
        &mut self,
        config: &Config,
        place: &mut Place<'_, '_, H>,
        flags: Flags,
        length: usize,
    ) -> Output {
        let is_syn = flags.contains(Flags::SYN);
        let has_ack = self.phase != Phase::SynSent;
        let incoming = &mut self.incoming;
        // The window of a SYN is never scaled. A SYN to a server in the guest offers window scaling. The
        // answer to a SYN of the guest has the option only if the guest's SYN has it.
        let (window, scale) = match (is_syn, has_ack) {
            (false, _) => (incoming.window(), None),
            (true, true) => {
                let window = incoming.edge.since(incoming.nxt);
                let scale = (incoming.scale > 0).then_some(incoming.scale);
                (u16::try_from(window).unwrap_or(u16::MAX), scale)
            }
            (true, false) => (u16::MAX, Some(super::flow::SCALE)),
        };
        if has_ack {
            incoming.acknowledged = incoming.nxt;
            let scale = if is_syn { 0 } else { incoming.scale };
            incoming.advertised = incoming.nxt + (u32::from(window) << scale);
            incoming.ack = AckDue::No;
        }
        let header = TcpHeader {
            ends: self.ends,
            seq: self.outgoing.nxt,
            ack: has_ack.then_some(incoming.nxt),
            flags,
            window,
            syn_options: is_syn.then(|| (mss(config.mtu, self.ends.peer.is_ipv4()), scale)),
        };
        let offload = header.write(config.guest_mac, length, place.head);
        Output { data: length, offload }
    }
}

/// Returns the maximum number of bytes of TCP data in packets of at most `mtu` bytes.
pub(crate) fn mss(mtu: u16, is_v4: bool) -> u16 {
    let headers = TCP + if is_v4 { IPV4 } else { IPV6 };
    u16::try_from(usize::from(mtu).saturating_sub(headers)).unwrap_or(u16::MAX)
}
