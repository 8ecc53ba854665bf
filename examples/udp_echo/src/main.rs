//! Sends datagrams back to where they came from.
//!
//! `udp_echo [PORT]` (7007) prints where it listens, for IPv4 and IPv6, and ends when a datagram says `exit`, which is
//! sent back as well. Try it with `nc -u HOST 7007`.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::ExitCode;
use std::{env, io};

/// The port if nothing is said.
const PORT: u16 = 7007;

/// The exit code for arguments that make no sense.
const USAGE_ERROR: u8 = 2;

/// More than fits into a datagram.
const ROOM: usize = 65_536;

fn main() -> ExitCode {
    let port = match env::args().nth(1).map(|port| port.parse()) {
        None => PORT,
        Some(Ok(port)) => port,
        Some(Err(_)) => {
            eprintln!("usage: udp_echo [PORT]");
            return ExitCode::from(USAGE_ERROR);
        }
    };
    match run(port) {
        Ok(count) => {
            println!("sent back {count} datagrams");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Echoes until it is told to end; gives the number of datagrams.
fn run(port: u16) -> io::Result<u64> {
    let any = (Ipv6Addr::UNSPECIFIED, port);
    let socket = UdpSocket::bind(any).or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)))?;
    println!("listening on {}", socket.local_addr()?);
    echo(&socket)
}

fn echo(socket: &UdpSocket) -> io::Result<u64> {
    let mut buffer = vec![0; ROOM];
    let mut count = 0;
    loop {
        let (size, sender) = socket.recv_from(&mut buffer)?;
        let datagram = buffer.split_at(size).0;
        // A sender that cannot be reached is no reason to leave the others alone.
        match socket.send_to(datagram, sender) {
            Ok(_) => count += 1,
            Err(error) => eprintln!("cannot answer {sender}: {error}"),
        }
        if datagram.trim_ascii_end() == b"exit" {
            return Ok(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::thread;
    use std::time::Duration;

    use super::echo;

    #[test]
    fn datagrams_of_any_size_come_back() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let server = thread::spawn(move || echo(&server).unwrap());
        for size in [0, 1, 1472, 1473, 65_507] {
            let datagram = vec![7; size];
            client.send(&datagram).unwrap();
            let mut answer = vec![0; 70_000];
            let size = client.recv(&mut answer).unwrap();
            assert_eq!(answer[..size], datagram);
        }
        client.send(b"exit\n").unwrap();
        assert_eq!(server.join().unwrap(), 6);
    }
}
