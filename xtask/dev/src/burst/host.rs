//! TCP sockets in the host's kernel: accept queues and counters.

use std::fs;

use anyhow::{Context, Result};

/// State of a listening socket in `/proc/net/tcp`: `TCP_LISTEN` of Linux's `net/tcp_states.h`.
const LISTEN: &str = "0A";

/// Counters that tell why the host's kernel drops or resets connections (Linux:
/// `Documentation/networking/snmp_counter.rst`).
const COUNTERS: [&str; 4] = ["ListenOverflows", "SyncookiesFailed", "TCPAbortOnData", "TCPAbortOnMemory"];

/// Returns the number of connections in the accept queues of all listeners of a port of the host.
pub(super) fn accept_queue(port: u16) -> Result<u64> {
    let mut sum = 0;
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // Without IPv6, the second file does not exist.
        sum += fs::read_to_string(file).map_or(Ok(0), |table| accept_queue_in(&table, port))?;
    }
    Ok(sum)
}

fn accept_queue_in(table: &str, port: u16) -> Result<u64> {
    let ending = format!(":{port:04X}");
    let mut sum = 0;
    for line in table.lines() {
        let mut fields = line.split_whitespace().skip(1);
        let (local, _remote, state, queues) = (fields.next(), fields.next(), fields.next(), fields.next());
        if state == Some(LISTEN) && local.is_some_and(|local| local.ends_with(&ending)) {
            let queue = queues.and_then(|queues| queues.split_once(':')).context(line.to_owned())?.1;
            sum += u64::from_str_radix(queue, 16)?;
        }
    }
    Ok(sum)
}

/// Returns the values of [`COUNTERS`].
pub(super) fn counters() -> [(&'static str, u64); 4] {
    let text = fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    COUNTERS.map(|name| (name, counter_in(&text, name)))
}

/// Returns a counter of `/proc/net/netstat`, or 0 if the counter is not there. The file has a line of names
/// above each line of values.
fn counter_in(text: &str, name: &str) -> u64 {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let value = names.split(' ').zip(values.split(' ')).find(|&(other, _)| other == name);
        if let Some((_, value)) = value {
            return value.parse().unwrap_or(0);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::thread;
    use std::time::Duration;

    use super::{accept_queue, accept_queue_in, counter_in};

    #[test]
    fn accept_queue_is_that_of_the_port() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(accept_queue(address.port()).unwrap(), 0);
        let _clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        // The client may be connected before the kernel has queued the connection.
        while accept_queue(address.port()).unwrap() < 3 {
            thread::sleep(Duration::from_millis(1));
        }
        listener.accept().unwrap();
        assert_eq!(accept_queue(address.port()).unwrap(), 2);
    }

    #[test]
    fn malformed_queue_is_an_error() {
        let line = "0: 0100007F:1F90 00000000:0000 0A 00000000:000000ZZ";
        assert!(accept_queue_in(line, 8080).is_err());
        assert!(accept_queue_in("0: 0100007F:1F90 00000000:0000 0A", 8080).is_err());
        assert_eq!(accept_queue_in(line, 8081).unwrap(), 0);
    }

    #[test]
    fn counter_is_found_by_name() {
        let text = "TcpExt: A B\nTcpExt: 1 2\nIpExt: C\nIpExt: 3\n";
        assert_eq!(["A", "B", "C", "D"].map(|name| counter_in(text, name)), [1, 2, 3, 0]);
    }
}
