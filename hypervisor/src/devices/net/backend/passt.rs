//! The passt backend: passt(1) maps the guest's connections to sockets of the host, which takes neither root nor a TAP
//! interface.
//!
//! uhyve starts passt before it confines itself, and passes it one end of a socket pair. passt exits when the other end
//! is closed, and so whenever uhyve exits; a supervisor sees to that.
//!
//! passt connects the guest to any destination that the host's user can reach. So frames that would open a connection which the
//! [egress policy](crate::devices::net::egress) does not permit are dropped here. So are [segments behind
//! SYN-ACKs](super::syn_ack) that would make it loop. [Resets](super::reset) that a guest would ignore are corrected.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use hermit_options::passt::{self, PasstError, PasstStartup};
use vm_memory::VolatileSlice;

use super::iovec::{gather, scatter};
use super::reset::add_acknowledgment;
use super::stream::{FrameReader, FrameWriter};
use super::syn_ack::{UnreadSynAcks, read};
use super::{Backend, Disconnected, ReceivedFrame, TxStatus};
use crate::devices::net::egress::EgressFilter;
use crate::devices::net::header::{Offloads, VnetHeader};

/// A connection to a passt process.
#[derive(Debug)]
pub struct Passt {
    stream: File,
    /// A duplicate of `stream`, so that epoll(7) can watch for input and for output separately.
    output: File,
    reader: FrameReader,
    writer: FrameWriter,
    syn_acks: UnreadSynAcks,
    egress: EgressFilter,
}

impl Passt {
    /// Starts passt with these arguments. `egress` decides which frames of the guest it gets.
    ///
    /// # Errors
    ///
    /// See [`PasstError`].
    pub fn start(arguments: &[String], egress: EgressFilter) -> Result<(Self, PasstStartup), PasstError> {
        let (ours, theirs) = UnixStream::pair()?;
        let startup = passt::start(theirs, arguments)?;
        Ok((Self::new(ours, egress)?, startup))
    }

    /// Backend for a passt process at the other end of `stream`.
    ///
    /// # Errors
    ///
    /// The host has no more file descriptors.
    pub fn new(stream: UnixStream, egress: EgressFilter) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let stream = File::from(OwnedFd::from(stream));
        let output = stream.try_clone()?;
        Ok(Self {
            stream,
            output,
            reader: FrameReader::default(),
            writer: FrameWriter::default(),
            syn_acks: UnreadSynAcks::default(),
            egress,
        })
    }
}

/// Turns `EAGAIN` and `EINTR` into `None`, and other errors into [`Disconnected`].
fn non_blocking<T>(result: io::Result<T>) -> Result<Option<T>, Disconnected> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) => {
            Err(Disconnected(io::Error::new(error.kind(), "passt has ended")))
        }
        Err(error) => Err(Disconnected(io::Error::new(error.kind(), format!("passt: {error}")))),
    }
}

impl Backend for Passt {
    fn has_offloads(&self) -> bool {
        false
    }

    fn set_offloads(&mut self, _offloads: Offloads) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, buffers: &[VolatileSlice<'_>]) -> Result<Option<ReceivedFrame>, Disconnected> {
        let mut stream = &self.stream;
        let frame = non_blocking(self.reader.next(|buffer| stream.read(buffer)))?;
        Ok(frame.map(|frame| {
            add_acknowledgment(frame);
            self.egress.note(frame, Instant::now);
            self.syn_acks.receive(frame);
            scatter(frame, buffers);
            ReceivedFrame { header: VnetHeader::default(), length: frame.len() }
        }))
    }

    fn send(&mut self, _header: VnetHeader, frame: &[VolatileSlice<'_>]) -> Result<TxStatus, Disconnected> {
        if !self.writer.has_capacity() && self.flush()? == TxStatus::WouldBlock && !self.writer.has_capacity()
        {
            return Ok(TxStatus::WouldBlock);
        }
        let length = frame.iter().map(VolatileSlice::len).sum::<usize>();
        // Cannot fail: the device passes on no frame above MAX_FRAME.
        let length = u32::try_from(length).map_err(io::Error::other)?;
        let Self { stream, syn_acks, egress, .. } = self;
        let written = self.writer.written();
        let accept = |frame: &[u8], end| {
            egress.admit(frame, Instant::now).is_some()
                && syn_acks.admit(frame, end, || read(stream, written))
        };
        self.writer.push(length, |buffer| gather(frame, buffer), accept);
        Ok(TxStatus::Accepted)
    }

    fn flush(&mut self) -> Result<TxStatus, Disconnected> {
        let mut stream = &self.stream;
        let flushed = non_blocking(self.writer.flush(|bytes| stream.write(bytes)))?;
        Ok(flushed.map_or(TxStatus::WouldBlock, |()| TxStatus::Accepted))
    }

    fn input(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    fn output(&self) -> RawFd {
        self.output.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::Passt;
    use crate::devices::net::backend::{Backend, TxStatus};
    use crate::devices::net::egress::EgressFilter;
    use crate::devices::net::header::VnetHeader;
    use hermit_options::egress::{EgressOptions, EgressPolicy, HostNetwork};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use vm_memory::VolatileSlice;

    fn pair() -> (Passt, UnixStream) {
        pair_with(&EgressOptions::default(), HostNetwork::default())
    }

    fn pair_with(options: &EgressOptions, host: HostNetwork) -> (Passt, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let egress = EgressFilter::new(EgressPolicy::of_sockets(options, &host));
        (Passt::new(ours, egress).unwrap(), theirs)
    }

    fn frame(passt: &mut Passt) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 70_000];
        let received = passt.receive(&[VolatileSlice::from(&mut *buffer)]).unwrap()?;
        buffer.truncate(received.length);
        Some(buffer)
    }

    fn send(passt: &mut Passt, length: usize) -> TxStatus {
        passt.send(VnetHeader::default(), &[VolatileSlice::from(&mut *arp(length))]).unwrap()
    }

    #[test]
    fn frames_pass_in_both_directions() {
        let (mut passt, mut other) = pair();
        assert_eq!(frame(&mut passt), None);
        other.write_all(&[0, 0, 0, 20]).unwrap();
        assert_eq!(frame(&mut passt), None);
        other.write_all(&[7; 20]).unwrap();
        other.write_all(&[0, 0, 0, 14, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]).unwrap();
        assert_eq!(frame(&mut passt), Some(vec![7; 20]));
        assert_eq!(frame(&mut passt), Some(vec![8; 14]));
        assert_eq!(frame(&mut passt), None);
        assert_eq!(send(&mut passt, 14), TxStatus::Accepted);
        assert_eq!(send(&mut passt, 15), TxStatus::Accepted);
        assert_eq!(passt.flush().unwrap(), TxStatus::Accepted);
        let mut bytes = [0; 4 + 14 + 4 + 15];
        other.read_exact(&mut bytes).unwrap();
        assert_eq!((bytes[3], bytes[4], bytes[21], bytes[36]), (14, 3, 15, 3));
    }

    /// Frames of ARP pass whatever they contain.
    fn arp(length: usize) -> Vec<u8> {
        let mut frame = vec![3; length];
        frame[12..14].copy_from_slice(&[8, 6]);
        frame
    }

    #[test]
    fn frame_for_a_closed_address_passes_only_if_that_is_opened() {
        let mut allowed = EgressOptions::default();
        allowed.allow("169.254.169.254".parse().unwrap()).unwrap();
        let opened = HostNetwork { loopback: Some(Vec::new()), ..HostNetwork::default() };
        let closed = (EgressOptions::default(), HostNetwork::default());
        for (address, open) in [
            ([127, 0, 0, 1], (EgressOptions::default(), opened)),
            ([169, 254, 169, 254], (allowed, HostNetwork::default())),
        ] {
            for ((options, host), expected) in [(closed.clone(), 14), (open, 60)] {
                let (mut passt, mut other) = pair_with(&options, host);
                let mut frame = vec![0; 60];
                frame[12..15].copy_from_slice(&[8, 0, 0x45]);
                frame[30..34].copy_from_slice(&address);
                let sent = passt.send(VnetHeader::default(), &[VolatileSlice::from(&mut *frame)]).unwrap();
                assert_eq!((sent, send(&mut passt, 14)), (TxStatus::Accepted, TxStatus::Accepted));
                assert_eq!(passt.flush().unwrap(), TxStatus::Accepted);
                let mut length = [0; 4];
                other.read_exact(&mut length).unwrap();
                assert_eq!(length, [0, 0, 0, expected], "{address:?}");
            }
        }
    }

    const SYN_ACK: u8 = 0x12;
    const ACK: u8 = 0x10;
    const RST: u8 = 0x04;

    /// A segment of a connection between 10.0.0.1 and 10.0.0.2, at the same port.
    fn segment(from_guest: bool, flags: u8) -> Vec<u8> {
        let mut frame = vec![0; 54];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        (frame[23], frame[47]) = (6, flags);
        let [guest, client] = [10, 0, 0, 1, 10, 0, 0, 2].as_chunks::<4>().0 else { unreachable!() };
        let (source, destination) = if from_guest { (guest, client) } else { (client, guest) };
        frame[26..30].copy_from_slice(source);
        frame[30..34].copy_from_slice(destination);
        frame
    }

    fn send_segment(passt: &mut Passt, flags: u8) {
        let mut frame = segment(true, flags);
        let sent = passt.send(VnetHeader::default(), &[VolatileSlice::from(&mut *frame)]).unwrap();
        assert_eq!((sent, passt.flush().unwrap()), (TxStatus::Accepted, TxStatus::Accepted));
    }

    #[test]
    fn syn_ack_is_not_repeated_before_passt_has_read_it() {
        let (mut passt, mut other) = pair();
        let mut bytes = [0; 200];
        // The first of both is in the socket, not in this process.
        send_segment(&mut passt, SYN_ACK);
        send_segment(&mut passt, SYN_ACK);
        assert_eq!(other.read(&mut bytes).unwrap(), 58);
        send_segment(&mut passt, SYN_ACK);
        assert_eq!(other.read(&mut bytes).unwrap(), 58);
        // Both would be written at once.
        let mut syn_ack = segment(true, SYN_ACK);
        for _ in 0..2 {
            passt.send(VnetHeader::default(), &[VolatileSlice::from(&mut *syn_ack)]).unwrap();
        }
        passt.flush().unwrap();
        assert_eq!(other.read(&mut bytes).unwrap(), 58);
    }

    #[test]
    fn reset_that_refuses_a_connection_acknowledges_its_syn() {
        let (mut passt, mut other) = pair();
        let mut reset = segment(false, RST);
        reset[42..46].fill(1);
        other.write_all(&[&[0, 0, 0, 54][..], &reset].concat()).unwrap();
        assert_eq!(frame(&mut passt).unwrap()[47], RST | ACK);
    }

    #[test]
    fn reset_passes_while_other_connections_keep_the_stream_full() {
        let (mut passt, mut other) = pair();
        send_segment(&mut passt, SYN_ACK);
        other.read_exact(&mut [0; 58]).unwrap();
        // Frames of other connections are unread.
        send(&mut passt, 1000);
        assert_eq!(passt.flush().unwrap(), TxStatus::Accepted);
        other.write_all(&[&[0, 0, 0, 54][..], &segment(false, ACK)].concat()).unwrap();
        assert!(frame(&mut passt).is_some());
        send_segment(&mut passt, RST);
        let mut bytes = [0; 3000];
        assert_eq!(other.read(&mut bytes).unwrap(), 1004 + 58);
        assert_eq!(bytes[1004 + 4 + 47], RST);
    }

    #[test]
    fn syn_ack_without_answer_is_forgotten_though_the_stream_is_never_empty() {
        let (mut passt, mut other) = pair();
        send_segment(&mut passt, SYN_ACK);
        other.read_exact(&mut [0; 58]).unwrap();
        // One frame is always unread.
        send(&mut passt, 20_000);
        for _ in 0..20 {
            send(&mut passt, 20_000);
            assert_eq!(passt.flush().unwrap(), TxStatus::Accepted);
            other.read_exact(&mut [0; 20_004]).unwrap();
        }
        // The client uses its port again.
        send_segment(&mut passt, SYN_ACK);
        assert_eq!(other.read(&mut [0; 30_000]).unwrap(), 20_004 + 58);
    }

    #[test]
    fn full_stream_blocks_and_resumes_without_loss() {
        let (mut passt, mut other) = pair();
        let mut count = 0;
        while send(&mut passt, 60_000) == TxStatus::Accepted {
            count += 1;
            assert!(count < 100, "the stream never blocks");
        }
        assert_eq!(passt.flush().unwrap(), TxStatus::WouldBlock);
        let mut bytes = vec![0; 60_004];
        for number in 0..count {
            // Frames arrive whole, whatever the boundaries of the writes.
            let reader =
                std::thread::spawn(move || other.read_exact(&mut bytes).map(|()| (other, bytes)).unwrap());
            while !reader.is_finished() {
                passt.flush().unwrap();
            }
            (other, bytes) = reader.join().unwrap();
            assert_eq!((&bytes[..5], bytes[60_003]), (&[0, 0, 0xea, 0x60, 3][..], 3), "{number}");
        }
        assert_eq!(send(&mut passt, 60_000), TxStatus::Accepted);
    }

    #[test]
    fn exit_of_passt_disconnects_both_directions() {
        let (mut passt, other) = pair();
        drop(other);
        let error = passt.receive(&[]).unwrap_err();
        assert_eq!(error.to_string(), "passt has ended");
        send(&mut passt, 100);
        assert_eq!(passt.flush().unwrap_err().to_string(), "passt has ended");
        let (mut passt, mut other) = pair();
        other.write_all(&[0xff; 8]).unwrap();
        let error = passt.receive(&[]).unwrap_err();
        assert!(error.to_string().contains("invalid length"), "{error}");
    }
}
