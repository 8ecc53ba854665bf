//! Echoes UDP datagrams to their senders.
//!
//! `udp_echo [PORT]` (default 7007) prints its address, serves IPv6 and IPv4, and exits after a datagram with
//! the text `exit`, which is echoed as well. Try it with `nc -u HOST 7007`.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::ExitCode;
use std::{env, io};

/// Default port.
const DEFAULT_PORT: u16 = 7007;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Size of the receive buffer in bytes: more than the maximum datagram.
const BUFFER_SIZE: usize = 65_536;

fn main() -> ExitCode {
    let port = match env::args().nth(1).map(|port| port.parse()) {
        None => DEFAULT_PORT,
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

/// Echoes datagrams until a datagram is `exit`. Returns the number of datagrams.
fn run(port: u16) -> io::Result<u64> {
    let any = (Ipv6Addr::UNSPECIFIED, port);
    let socket = UdpSocket::bind(any).or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)))?;
    println!("listening on {}", socket.local_addr()?);
    echo(&socket)
}

fn echo(socket: &UdpSocket) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER_SIZE];
    let mut count = 0;
    loop {
        let (size, sender) = socket.recv_from(&mut buffer)?;
        let datagram = buffer.split_at(size).0;
        // An unreachable sender must not stop the service for others.
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
    fn datagrams_of_any_size_are_echoed() {
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
