//! A connection of a guest, segment by segment.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::thread;

use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::{connect, receive, send};
use crate::host::Outcome;

const SYN: u8 = 2;
const PUSH: u8 = 8;
const ACK: u8 = 16;

/// Port of the guest.
const PORT: u16 = 5_000;

/// Maximum number of bytes of data in a segment.
const MAX_DATA: usize = 16_000;

/// The guest's end of a connection with the host's loopback.
struct Connection {
    stream: UnixStream,
    port: u16,
    /// Sequence numbers: of the next byte, of the first unacknowledged byte, and of the peer's next byte.
    next: u32,
    acknowledged: u32,
    peer: u32,
    window: u16,
}

impl Connection {
    /// Opens a connection.
    fn open(stream: UnixStream, port: u16) -> Self {
        let mut connection = Self { stream, port, next: 1, acknowledged: 0, peer: 0, window: 0 };
        connection.send(SYN, &[]);
        connection.receive();
        connection.peer += 1;
        connection.send(ACK, &[]);
        connection
    }

    /// Sends a segment without checksums, which frames between a guest and the network do not need.
    fn send(&mut self, flags: u8, data: &[u8]) {
        let ports = [PORT, self.port].map(u16::to_be_bytes).concat();
        let (length, seq) =
            (u16::try_from(40 + data.len()).unwrap(), self.next - u32::from(flags & SYN != 0));
        let frame = [
            &[0x52, 0x55, 10, 0, 2, 2, 0x52, 0x54, 0, 0x12, 0x34, 0x56, 8, 0, 0x45, 0][..],
            &length.to_be_bytes(),
            &[0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 2, 15, 10, 0, 2, 2],
            &ports,
            &seq.to_be_bytes(),
            &self.peer.to_be_bytes(),
            &[0x50, flags, 0xff, 0xff, 0, 0, 0, 0],
            data,
        ];
        send(&self.stream, &frame.concat());
        self.next += u32::try_from(data.len()).unwrap();
    }

    /// Receives the next segment.
    fn receive(&mut self) {
        let frame = loop {
            let frame = receive(&self.stream);
            if frame[12..14] == [8, 0] && frame[23] == 6 {
                break frame;
            }
        };
        assert_eq!(frame[47] & 4, 0, "the connection is reset");
        let number = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
        (self.peer, self.acknowledged) = (number(38), number(42));
        self.window = u16::from_be_bytes([frame[48], frame[49]]);
    }

    /// Returns the number of bytes that the peer's window permits.
    fn room(&self) -> usize {
        usize::from(self.window) - usize::try_from(self.next - self.acknowledged).unwrap()
    }
}

#[test]
fn bytes_that_a_slow_peer_has_not_taken_survive_the_guest() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    set_socket_recv_buffer_size(&listener, 4_096).unwrap();
    let (uhyve, stream) = connect(&["--net", "user,host-loopback"]);
    let mut guest = Connection::open(stream, listener.local_addr().unwrap().port());
    let (mut peer, _) = listener.accept().unwrap();
    let mut sent = 0;
    // Sends until the buffers of the host and of uhyve are full.
    while guest.window > 0 {
        let length = guest.room().min(MAX_DATA);
        if length > 0 {
            guest.send(ACK | PUSH, &vec![b'a'; length]);
            sent += length;
        } else {
            guest.receive();
        }
    }
    assert_eq!(guest.acknowledged, guest.next);
    drop(guest.stream);
    let reader = thread::spawn(move || {
        let mut found = Vec::new();
        // A reset is an error.
        peer.read_to_end(&mut found).map(|_| found)
    });
    assert_eq!(reader.join().unwrap().unwrap(), vec![b'a'; sent]);
    let outcome = Outcome::from(uhyve.wait_with_output().unwrap());
    assert_eq!((outcome.code, &*outcome.errors), (Some(0), ""));
}
