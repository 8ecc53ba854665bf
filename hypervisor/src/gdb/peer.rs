//! User who owns the other end of a TCP connection on the loopback.
//!
//! A connection within this host has two entries in the kernel's table of TCP sockets (/proc/net/tcp,
//! proc_pid_net(5)), one for each end. An entry has the user who has created the socket. An IPv6 socket that
//! is connected to an IPv4 address is listed in /proc/net/tcp6.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, SocketAddrV4};
use std::os::unix::fs::FileExt;

use hermit_options::socket_table::SocketEntry;
use rustix::process::geteuid;

/// Tables of IPv4 and IPv6.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// User ID of root.
const ROOT: u32 = 0;

/// Tables of TCP sockets, which are opened before the process is confined, and the user who may connect to
/// `local`.
#[derive(Debug)]
pub(super) struct PeerTable {
    tables: Vec<File>,
    local: SocketAddrV4,
    user: u32,
}

impl PeerTable {
    /// Opens the tables, for connections to `local`.
    pub(super) fn open(local: SocketAddrV4) -> io::Result<Self> {
        let [tcp, tcp6] = TABLES.map(File::open);
        // A host without IPv6 has only the first table.
        let tables = [tcp?].into_iter().chain(tcp6).collect();
        Ok(Self { tables, local, user: geteuid().as_raw() })
    }

    /// Returns an error unless the peer belongs to this process's user or to root.
    pub(super) fn check(&self, peer: SocketAddrV4) -> io::Result<()> {
        let refused = |whose: &str| {
            let text =
                format!("a connection of {whose}: only user {} and root may debug the guest", self.user);
            Err(io::Error::new(ErrorKind::PermissionDenied, text))
        };
        match self.user_of(peer)? {
            Some(user) if user == self.user || user == ROOT => Ok(()),
            Some(user) => refused(&format!("user {user}")),
            None => refused("an unknown user"),
        }
    }

    fn user_of(&self, peer: SocketAddrV4) -> io::Result<Option<u32>> {
        // The kernel generates the table anew when it is read from its start.
        let lines = |table| BufReader::new(FromStart { file: table, offset: 0 }).lines();
        let lines = self.tables.iter().flat_map(lines);
        let mut users = lines.map(|line| line.map(|line| user_in(&line, peer, self.local)));
        users.find_map(Result::transpose).transpose()
    }
}

/// Reads a file from its start, regardless of the file's position, because the gdb thread may not seek.
#[derive(Debug)]
struct FromStart<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(bytes, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Returns the user of the socket in a line of a table, if the socket is the end `from` of a connection to
/// `to`.
///
/// Ignores a socket without an inode: no program owns it any more, and the kernel prints root as its user.
fn user_in(line: &str, from: SocketAddrV4, to: SocketAddrV4) -> Option<u32> {
    let entry = SocketEntry::parse(line)?;
    // In the table of IPv6, IPv4 addresses are mapped (RFC 4291 §2.5.5.2).
    let is = |end: SocketAddr, address: SocketAddrV4| {
        (end.ip().to_canonical(), end.port()) == ((*address.ip()).into(), address.port())
    };
    (is(entry.local, from) && is(entry.remote, to) && entry.inode != 0).then_some(entry.user)
}

#[cfg(test)]
mod tests {
    use super::{PeerTable, user_in};
    use rustix::process::geteuid;
    use std::io::ErrorKind;
    use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};

    fn address(text: &str) -> SocketAddrV4 {
        text.parse().unwrap()
    }

    fn v4(address: SocketAddr) -> SocketAddrV4 {
        let SocketAddr::V4(address) = address else { panic!("{address}") };
        address
    }

    #[test]
    fn line_of_the_peer_names_its_user() {
        let line = "   1: 0100007F:C350 0100007F:04D2 01 00000000:00000000 00:00000000 00000000  1000        0 41 1 0";
        let (gdb, server) = (address("127.0.0.1:50000"), address("127.0.0.1:1234"));
        assert_eq!(user_in(line, gdb, server), Some(1000));
        // The server's own end, another port, a socket that is closed, and text that is no entry.
        assert_eq!(user_in(line, server, gdb), None);
        assert_eq!(user_in(line, address("127.0.0.1:50001"), server), None);
        assert_eq!(user_in(&line.replace(" 41 ", " 0 "), gdb, server), None);
        assert_eq!(user_in("  sl  local_address rem_address", gdb, server), None);
        let mapped = line.replace("0100007F", "0000000000000000FFFF00000100007F");
        assert_eq!(user_in(&mapped, gdb, server), Some(1000));
    }

    #[test]
    fn connection_is_of_the_user_who_has_made_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let local = v4(listener.local_addr().unwrap());
        let table = PeerTable::open(local).unwrap();
        let gdb = TcpStream::connect(local).unwrap();
        let peer = v4(gdb.local_addr().unwrap());
        for _ in 0..2 {
            assert_eq!(table.user_of(peer).unwrap(), Some(geteuid().as_raw()));
            table.check(peer).unwrap();
        }
        // Another user's uhyve.
        let table = PeerTable { user: geteuid().as_raw() + 1, ..table };
        let result = table.check(peer);
        assert_eq!(result.is_ok(), geteuid().is_root());
        drop((gdb, listener));
        assert_eq!(table.check(peer).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
