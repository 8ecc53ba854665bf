//! Connections of gdb: a TCP port of the loopback, or a UNIX socket.
//!
//! A connected program controls the guest, and the protocol has no authentication. So only the user of this
//! process, and root, may connect. File permissions ensure this for a UNIX socket, [`super::peer`] for TCP.
//!
//! The seccomp filter of the gdb thread lists the system calls of this module. So this module uses functions
//! of rustix: each makes exactly one system call, with every C library.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gdbstub::conn::Connection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind,
    listen, recv, send, socket_with,
};
use rustix::process::geteuid;

use super::peer::PeerTable;
use crate::config::GdbAddress;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// Number of bytes of replies that are collected before they are sent.
const MAX_COLLECTED: usize = 4096;

/// Time limit for sending a reply, after which the session ends.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Listening socket.
#[derive(Debug)]
pub(super) struct GdbListener {
    socket: OwnedFd,
    address: ListenAddress,
}

#[derive(Debug)]
enum ListenAddress {
    Tcp { port: u16, peers: PeerTable },
    Unix(PathBuf),
}

/// Connected socket.
#[derive(Debug)]
pub(super) struct GdbSocket(OwnedFd);

impl GdbListener {
    /// Listens on an address.
    pub(super) fn bind(address: &GdbAddress) -> io::Result<Self> {
        match address {
            GdbAddress::Port(port) => {
                Self::tcp(*port).map_err(|error| named(&error, &format!("port {port}")))
            }
            GdbAddress::Path(path) => {
                Self::unix(path).map_err(|error| named(&error, &path.display().to_string()))
            }
        }
    }

    fn tcp(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        // Connections inherit the option, so that a reply is sent as soon as it is complete.
        set_tcp_nodelay(&listener, true)?;
        let port = listener.local_addr()?.port();
        let peers = PeerTable::open(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
        Ok(Self { socket: listener.into(), address: ListenAddress::Tcp { port, peers } })
    }

    fn unix(path: &Path) -> io::Result<Self> {
        remove_stale(path)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // bind(2) creates the file with the permissions of the socket. Set before that, they keep other users
        // from connecting at any time.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        Ok(Self { socket, address: ListenAddress::Unix(path.to_owned()) })
    }

    /// Accepts a connection of a user who may debug the guest.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if another user has connected, or the user cannot be determined.
    pub(super) fn accept(&self) -> io::Result<GdbSocket> {
        let (socket, peer) = acceptfrom_with(&self.socket, SocketFlags::CLOEXEC)?;
        if let ListenAddress::Tcp { peers, .. } = &self.address {
            let peer = peer.and_then(|peer| SocketAddrV4::try_from(peer).ok()).ok_or(Errno::AFNOSUPPORT)?;
            peers.check(peer)?;
        }
        Ok(GdbSocket(socket))
    }

    /// Returns the argument of gdb's command `target remote`.
    pub(super) fn remote(&self) -> String {
        match &self.address {
            ListenAddress::Tcp { port, .. } => format!(":{port}"),
            ListenAddress::Unix(path) => path.display().to_string(),
        }
    }
}

fn named(error: &io::Error, address: &str) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {address} for gdb: {error}"))
}

/// Removes a socket of this user on which no process listens. uhyve cannot remove its own socket at the end,
/// because it is confined.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(status) = fs::symlink_metadata(path) else { return Ok(()) };
    let is_own_socket = status.file_type().is_socket() && status.uid() == geteuid().as_raw();
    let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    if is_own_socket && UnixStream::connect(path).is_err_and(refused) {
        fs::remove_file(path)
    } else {
        Ok(())
    }
}

impl AsRawFd for GdbListener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl GdbSocket {
    /// Waits for bytes, and returns the number of received bytes, 0 at the end of the stream.
    pub(super) fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.0, bytes, RecvFlags::empty())?.0)
    }

    /// Returns the next received byte, which stays in the socket; `None` at the end of the stream.
    pub(super) fn peek(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let (count, _) = recv(&self.0, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
        Ok(byte.first().copied().filter(|_| count > 0))
    }

    /// Sends all bytes. Returns an error if gdb does not take them within `timeout`.
    fn send_within(&self, mut bytes: &[u8], timeout: Duration) -> rustix::io::Result<()> {
        let start = Instant::now();
        while !bytes.is_empty() {
            match send(&self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait_for_room(timeout.saturating_sub(start.elapsed()))?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wait_for_room(&self, timeout: Duration) -> rustix::io::Result<()> {
        let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], Some(&timeout)) {
            Ok(0) => Err(Errno::TIMEDOUT),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for GdbSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for GdbSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Replies to gdb. They are collected until they are flushed, because gdbstub writes byte by byte.
#[derive(Debug)]
pub(super) struct Replies<'a> {
    socket: &'a GdbSocket,
    collected: Vec<u8>,
}

impl<'a> Replies<'a> {
    pub(super) const fn new(socket: &'a GdbSocket) -> Self {
        Self { socket, collected: Vec::new() }
    }
}

impl Connection for Replies<'_> {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.collected.push(byte);
        if self.collected.len() < MAX_COLLECTED { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.socket.send_within(&self.collected, SEND_TIMEOUT);
        self.collected.clear();
        Ok(result?)
    }
}

#[cfg(test)]
mod tests {
    use super::{GdbListener, GdbSocket};
    use crate::config::GdbAddress;
    use rustix::io::Errno;
    use std::fs;
    use std::io::{ErrorKind, Read};
    use std::net::TcpStream;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn unix_socket_is_for_its_user_only_and_replaces_a_stale_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gdb");
        let address = GdbAddress::Path(path.clone());
        // The second listener finds the file of the first one, on which no process listens any more.
        for _ in 0..2 {
            let listener = GdbListener::bind(&address).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(listener.remote(), path.to_str().unwrap());
            let in_use = GdbListener::bind(&address).unwrap_err();
            assert_eq!(in_use.kind(), ErrorKind::AddrInUse, "{in_use}");
            // The failed attempt to bind has connected, too.
            listener.accept().unwrap();
            let _gdb = UnixStream::connect(&path).unwrap();
            listener.accept().unwrap();
        }
    }

    #[test]
    fn file_that_is_no_socket_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        let error = GdbListener::bind(&GdbAddress::Path(path.clone())).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert_eq!(fs::read_to_string(path).unwrap(), "text");
    }

    #[test]
    fn own_user_connects_by_tcp() {
        let listener = GdbListener::bind(&GdbAddress::Port(0)).unwrap();
        let port = listener.remote().trim_start_matches(':').parse::<u16>().unwrap();
        let _gdb = TcpStream::connect(("127.0.0.1", port)).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn reply_is_sent_whole_or_fails_after_the_timeout() {
        let (ours, mut gdb) = UnixStream::pair().unwrap();
        let socket = GdbSocket(ours.into());
        let bytes = vec![7; 1 << 20];
        let stalled = socket.send_within(&bytes, Duration::from_millis(20));
        assert_eq!(stalled, Err(Errno::TIMEDOUT));
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            gdb.read_to_end(&mut read).unwrap();
            read.len()
        });
        socket.send_within(&bytes, Duration::from_secs(150)).unwrap();
        drop(socket);
        assert!(reader.join().unwrap() > bytes.len());
    }
}
