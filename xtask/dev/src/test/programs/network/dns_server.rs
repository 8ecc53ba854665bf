//! A DNS server on the host (RFC 1035). The server resolves every name to the same address. A name that
//! starts with [`MANY`] has more addresses in addition, more than fit into a datagram.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The port of DNS servers, which only root may bind.
const PORT: u16 = 53;

/// Prefix of names that have many addresses. Their first address is the address of all other names.
const MANY: &[u8] = b"many";

/// Number of addresses of a name with the prefix [`MANY`].
const MANY_ADDRESSES: u8 = 100;

/// Maximum size in bytes of a response over UDP without EDNS (RFC 1035 §2.3.4). All resolvers accept it.
const MAX_DATAGRAM: usize = 512;

/// Size of a message's header, in bytes.
const HEADER: usize = 12;

/// Size of a question's type and class, which follow its name, in bytes.
const TYPE_AND_CLASS: usize = 4;

/// The type of questions for IPv4 addresses.
const A: [u8; 2] = [0, 1];

/// Lock that a running server holds. Only one server can run, because there is only one port.
static RUNNING: Mutex<()> = Mutex::new(());

/// A running server, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct DnsServer {
    /// The address of the server itself.
    own: Ipv4Addr,
    socket: UdpSocket,
    threads: Vec<JoinHandle<()>>,
    /// Lock on [`RUNNING`]. It is the last field, because fields are dropped in their order: the socket must
    /// be closed before the next server binds the same port.
    _running: MutexGuard<'static, ()>,
}

impl DnsServer {
    /// Starts a server on the loopback interface, which resolves every name to `address`. First waits until
    /// no other test runs a server.
    ///
    /// # Errors
    ///
    /// Fails if this user may not bind the port, or if another program has bound it.
    pub(super) fn serve(address: Ipv4Addr) -> io::Result<Self> {
        Self::serve_at(Ipv4Addr::LOCALHOST, address)
    }

    /// Starts a server as [`Self::serve`] does, but at the address `own` of the host.
    pub(super) fn serve_at(own: Ipv4Addr, address: Ipv4Addr) -> io::Result<Self> {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = UdpSocket::bind((own, PORT))?;
        let listener = TcpListener::bind((own, PORT))?;
        let server = socket.try_clone()?;
        let threads = vec![
            thread::spawn(move || answer_all(&server, address)),
            thread::spawn(move || serve_all(&listener, address)),
        ];
        Ok(Self { own, socket, threads, _running: running })
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        // An empty datagram and an empty connection end the threads.
        let is_sent = self.socket.send_to(b"", (self.own, PORT)).is_ok();
        let is_connected = TcpStream::connect((self.own, PORT)).is_ok();
        for thread in self.threads.drain(..).filter(|_| is_sent && is_connected) {
            // An error is ignored: it only means that a thread has panicked, which is reported.
            let _: thread::Result<()> = thread.join();
        }
    }
}

fn answer_all(socket: &UdpSocket, address: Ipv4Addr) {
    let mut question = [0; 512];
    loop {
        match socket.recv_from(&mut question) {
            Ok((0, _)) => return,
            Ok((size, from)) => {
                let answer = |question| answer(question, address, MAX_DATAGRAM);
                if let Some(answer) = question.get(..size).and_then(answer) {
                    // A resolver without an answer repeats its question.
                    let _: io::Result<usize> = socket.send_to(&answer, from);
                }
            }
            // ICMP errors about earlier answers are ignored.
            Err(_) => {}
        }
    }
}

/// Answers the question on each connection. Ends at a connection without a question.
fn serve_all(listener: &TcpListener, address: Ipv4Addr) {
    while let Ok((mut stream, _)) = listener.accept() {
        let mut size = [0; 2];
        let Ok(()) = stream.read_exact(&mut size) else { return };
        let mut question = vec![0; u16::from_be_bytes(size).into()];
        let read = stream.read_exact(&mut question);
        let answer = read.ok().and_then(|()| answer(&question, address, u16::MAX.into()));
        let answer = answer.unwrap_or_default();
        let size = u16::try_from(answer.len()).unwrap_or(0);
        // A resolver without an answer repeats its question.
        let _: io::Result<()> = stream.write_all(&[&size.to_be_bytes()[..], &answer].concat());
    }
}

/// Returns the response to a query: one address, or many addresses, or no record if the type of the question
/// is not A. A response longer than `limit` bytes is truncated: it has no records, and the flag TC is set.
fn answer(question: &[u8], address: Ipv4Addr, limit: usize) -> Option<Vec<u8>> {
    let name = question.get(HEADER..)?.iter().position(|&byte| byte == 0)? + 1;
    let end = HEADER + name + TYPE_AND_CLASS;
    let is_asked = question.get(HEADER + name..end)?.starts_with(&A);
    // The header: a response, with recursion desired and available, one question, and a number of answers.
    let is_many = question.get(HEADER + 1..)?.starts_with(MANY);
    let count = if is_many { MANY_ADDRESSES } else { 1 } * u8::from(is_asked);
    let header = |flags, count| -> Option<Vec<u8>> {
        let fields = [flags, 0x80, 0, 1, 0, count, 0, 0, 0, 0];
        Some([question.get(..2)?, &fields, question.get(HEADER..end)?].concat())
    };
    let mut answer = header(0x81, count)?;
    for last in 0..count {
        // An answer: a pointer to the name of the question, type A, class IN, valid for a minute, four bytes
        // of data.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        let other = Ipv4Addr::new(192, 0, 2, last);
        answer.extend(if last == 0 { address } else { other }.octets());
    }
    if answer.len() > limit { header(0x83, 0) } else { Some(answer) }
}

#[cfg(test)]
mod tests {
    use super::answer;
    use std::net::Ipv4Addr;

    const ASKED: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x01\x00\x01";

    /// Maximum size of a response in bytes.
    const LIMIT: usize = 512;

    #[test]
    fn every_name_resolves_to_the_address() {
        let answer = answer(ASKED, Ipv4Addr::new(10, 0, 2, 2), LIMIT).unwrap();
        assert_eq!(answer[..2], [0x12, 0x34]);
        assert_eq!(answer[7], 1);
        assert!(answer.ends_with(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x02\x02"));
    }

    #[test]
    fn other_types_have_no_record() {
        let mut asked = ASKED.to_vec();
        asked[TYPE] = 28;
        assert_eq!(answer(&asked, Ipv4Addr::LOCALHOST, LIMIT).unwrap()[7], 0);
        assert_eq!(answer(&ASKED[..20], Ipv4Addr::LOCALHOST, LIMIT), None);
        assert_eq!(answer(b"", Ipv4Addr::LOCALHOST, LIMIT), None);
    }

    #[test]
    fn many_addresses_are_truncated_in_a_datagram() {
        let asked = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04many\x00\x00\x01\x00\x01";
        let truncated = answer(asked, Ipv4Addr::LOCALHOST, LIMIT).unwrap();
        assert_eq!((truncated[2], truncated[7], truncated.len()), (0x83, 0, asked.len()));
        let whole = answer(asked, Ipv4Addr::LOCALHOST, 65_535).unwrap();
        assert_eq!((whole[2], whole[7], whole.len()), (0x81, 100, asked.len() + 1600));
    }

    const TYPE: usize = 21;
}
