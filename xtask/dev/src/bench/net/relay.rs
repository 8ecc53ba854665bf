//! A relay between a guest and the host. In each direction, an [`Emulator`] decides how the relay impairs the
//! path.
//!
//! The host's end is a tap that the relay opens. The guest's end is QEMU's netdev `dgram` at a Unix socket,
//! which carries an Ethernet frame in each datagram. Neither end has offloads, so each frame is one packet on
//! the wire. Each direction has a thread, which blocks if the receiver does not keep up. Then frames wait in
//! front of the path, as at a network device.

mod direction;
mod emulator;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use rustix::io::Errno;
use tappers::{Interface, Tap};

pub(super) use direction::FrameCounts;
use direction::{Direction, Receiver, Sender};
pub(super) use emulator::Impairments;

/// Limit of the datagrams that wait at a Unix socket in this network namespace.
const QUEUE_LIMIT: &str = "/proc/sys/net/unix/max_dgram_qlen";

/// Value of [`QUEUE_LIMIT`]: more datagrams than the send buffer of a socket holds.
const QUEUE_LENGTH: &str = "512";

/// A relay. It ends when this value is dropped, and its tap is removed.
#[derive(Debug)]
pub(super) struct Relay {
    directions: [Arc<Direction>; 2],
    threads: Vec<JoinHandle<()>>,
    /// Path of the guest's socket.
    guest: PathBuf,
    /// Path of the relay's socket.
    host: PathBuf,
}

impl Relay {
    /// Starts a relay that passes on all frames. Opens a tap with the name `device`, which is not up yet, and
    /// sockets in a folder.
    pub(super) fn start(device: &str, folder: &Path) -> Result<Self> {
        fs::write(QUEUE_LIMIT, QUEUE_LENGTH).with_context(|| format!("cannot write {QUEUE_LIMIT}"))?;
        let (guest, host) = (folder.join("guest"), folder.join("host"));
        let socket = UnixDatagram::bind(&host).with_context(|| format!("cannot bind {}", host.display()))?;
        let socket = Arc::new(GuestSocket { socket, guest: guest.clone() });
        let tap = Interface::new(device).and_then(Tap::new_named);
        let tap = Arc::new(tap.with_context(|| format!("cannot open the tap {device}"))?);
        let directions = [Arc::new(Direction::default()), Arc::new(Direction::default())];
        let [to_guest, to_host] = directions.each_ref().map(Arc::clone);
        let threads = vec![
            spawn("to guest", Arc::clone(&tap), Arc::clone(&socket), to_guest)?,
            spawn("to host", socket, tap, to_host)?,
        ];
        Ok(Self { directions, threads, guest, host })
    }

    /// Returns QEMU's netdev `net` for this relay.
    pub(super) fn netdev(&self) -> String {
        let (guest, host) = (self.guest.display(), self.host.display());
        format!("dgram,id=net,local.type=unix,local.path={guest},remote.type=unix,remote.path={host}")
    }

    /// Replaces both directions of the path by empty ones with new impairments. Frames on the old path are
    /// lost, and the counts begin at zero.
    pub(super) fn impair(&self, impairments: Impairments, seed: u64) {
        for (direction, seed) in self.directions.iter().zip([seed * 2, seed * 2 + 1]) {
            direction.impair(impairments, seed);
        }
    }

    /// Returns the counts of frames to the guest and to the host.
    pub(super) fn counts(&self) -> [FrameCounts; 2] {
        self.directions.each_ref().map(|direction| direction.counts())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.directions.iter().for_each(|direction| direction.stop());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                eprintln!("net: a thread of the relay panicked");
            }
        }
    }
}

/// Starts the thread of a direction.
fn spawn(
    name: &str,
    receiver: Arc<impl Receiver + Send + Sync + 'static>,
    sender: Arc<impl Sender + Send + Sync + 'static>,
    direction: Arc<Direction>,
) -> Result<JoinHandle<()>> {
    let work = move || {
        // A high priority, because frames leave late while the thread waits for a CPU. The call fails for an
        // unprivileged user, which is not an error.
        let _: io::Result<()> = rustix::process::setpriority_process(None, -20).map_err(Into::into);
        if let Err(error) = direction.run(&*receiver, &*sender) {
            eprintln!("net: the relay failed: {error}");
        }
    };
    thread::Builder::new().name(format!("relay {name}")).spawn(work).context("cannot start a thread")
}

/// The relay's socket, and the path of the guest's socket.
#[derive(Debug)]
struct GuestSocket {
    socket: UnixDatagram,
    guest: PathBuf,
}

impl Receiver for GuestSocket {
    fn receive(&self, frame: &mut [u8]) -> io::Result<usize> {
        self.socket.recv(frame)
    }
}

impl AsFd for GuestSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Sender for GuestSocket {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        match self.socket.send_to(frame, &self.guest) {
            // QEMU has not opened its socket yet, or has exited: the frame is lost.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                Ok(())
            }
            result => result.map(drop),
        }
    }
}

impl Receiver for Tap {
    fn receive(&self, frame: &mut [u8]) -> io::Result<usize> {
        self.recv(frame)
    }
}

impl Sender for Tap {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        match Tap::send(self, frame) {
            // The interface is not up: the frame is lost.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(()),
            result => result.map(drop),
        }
    }
}
