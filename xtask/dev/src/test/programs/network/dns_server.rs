//! A DNS server on the host that resolves every name to one address (RFC 1035).

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The port of DNS servers, which only root may bind.
const PORT: u16 = 53;

/// Size of a message's header, in bytes.
const HEADER: usize = 12;

/// Size of a question's type and class behind its name, in bytes.
const TYPE_AND_CLASS: usize = 4;

/// The question type of IPv4 addresses.
const A: [u8; 2] = [0, 1];

/// Held by the server: there is only one port.
static RUNNING: Mutex<()> = Mutex::new(());

/// A server, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct DnsServer {
    _running: MutexGuard<'static, ()>,
    socket: UdpSocket,
    thread: Option<JoinHandle<()>>,
}

impl DnsServer {
    /// Starts a server on the loopback interface that resolves every name to an address. Waits until no other test runs one.
    ///
    /// # Errors
    ///
    /// If this user may not bind the port, or another program has bound it.
    pub(super) fn serve(address: Ipv4Addr) -> io::Result<Self> {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, PORT))?;
        let server = socket.try_clone()?;
        Ok(Self {
            _running: running,
            socket,
            thread: Some(thread::spawn(move || answer_all(&server, address))),
        })
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        // An empty datagram ends it.
        let is_sent = self.socket.send_to(b"", (Ipv4Addr::LOCALHOST, PORT)).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_sent) {
            // The thread returns nothing.
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
                if let Some(answer) = question.get(..size).and_then(|question| answer(question, address)) {
                    // A resolver without an answer repeats its question.
                    let _: io::Result<usize> = socket.send_to(&answer, from);
                }
            }
            // ICMP errors about earlier answers.
            Err(_) => {}
        }
    }
}

/// The response to a question: the address, or no record if the question is of another type.
fn answer(question: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let name = question.get(HEADER..)?.iter().position(|&byte| byte == 0)? + 1;
    let end = HEADER + name + TYPE_AND_CLASS;
    let is_asked = question.get(HEADER + name..end)?.starts_with(&A);
    // A response, recursion desired and available; one question, an answer or none.
    let mut answer = [question.get(..2)?, &[0x81, 0x80, 0, 1, 0, u8::from(is_asked), 0, 0, 0, 0]].concat();
    answer.extend(question.get(HEADER..end)?);
    if is_asked {
        // The name of the question, type A, class IN, for a minute, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::answer;
    use std::net::Ipv4Addr;

    const ASKED: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x01\x00\x01";

    #[test]
    fn every_name_resolves_to_the_address() {
        let answer = answer(ASKED, Ipv4Addr::new(10, 0, 2, 2)).unwrap();
        assert_eq!(answer[..2], [0x12, 0x34]);
        assert_eq!(answer[7], 1);
        assert!(answer.ends_with(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x02\x02"));
    }

    #[test]
    fn other_types_have_no_record() {
        let mut asked = ASKED.to_vec();
        asked[TYPE] = 28;
        assert_eq!(answer(&asked, Ipv4Addr::LOCALHOST).unwrap()[7], 0);
        assert_eq!(answer(&ASKED[..20], Ipv4Addr::LOCALHOST), None);
        assert_eq!(answer(b"", Ipv4Addr::LOCALHOST), None);
    }

    const TYPE: usize = 21;
}
