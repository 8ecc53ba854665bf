//! Frames between QEMU and the sockets.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use vm_memory::VolatileSlice;

use crate::devices::net::MAX_FRAME;
use crate::devices::net::backend::stream::{FrameReader, FrameWriter};
use crate::devices::net::backend::user::User;
use crate::devices::net::backend::{Backend, Disconnected};
use crate::devices::net::header::VnetHeader;

/// Maximum number of frames in one direction before the other direction is served.
const MAX_BATCH: usize = 64;

/// Connection to QEMU, and the user-mode network that handles its frames.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    reader: FrameReader,
    writer: FrameWriter,
    user: User,
    /// Buffer for a frame for the guest, and one more byte to detect frames that are too long.
    frame: Vec<u8>,
    epoll: OwnedFd,
    /// True while QEMU takes no more frames.
    is_blocked: bool,
}

impl Connection {
    /// # Errors
    ///
    /// The host has no more file descriptors.
    pub(super) fn new(stream: UnixStream, user: User) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // The data is not used: it does not matter which descriptor has an event.
        let data = || EventData::new_u64(0);
        epoll::add(&epoll, &stream, data(), EventFlags::IN)?;
        epoll::add(&epoll, user.events_fd(), data(), EventFlags::IN)?;
        Ok(Self {
            stream,
            reader: FrameReader::default(),
            writer: FrameWriter::default(),
            user,
            frame: vec![0; MAX_FRAME + 1],
            epoll,
            is_blocked: false,
        })
    }

    /// Moves frames until the connection ends. Returns the reason.
    pub(super) fn serve(&mut self) -> Disconnected {
        loop {
            if let Err(end) = self.turn() {
                self.user.finish();
                return end;
            }
        }
    }

    /// Moves a batch of frames in both directions, and waits for an event if there are no more.
    fn turn(&mut self) -> Result<(), Disconnected> {
        let has_more = [self.take_frames()?, self.give_frames()?].contains(&true);
        let is_blocked = !self.flush()?;
        if is_blocked != self.is_blocked {
            self.is_blocked = is_blocked;
            self.watch()?;
        }
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 2];
        match epoll::wait(&self.epoll, &mut events[..], has_more.then_some(&none)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Sets the events to wait for. While QEMU takes no frames, events of sockets are ignored, because their
    /// frames could not be delivered.
    fn watch(&self) -> Result<(), Disconnected> {
        let (stream, sockets) = match self.is_blocked {
            true => (EventFlags::IN | EventFlags::OUT, EventFlags::empty()),
            false => (EventFlags::IN, EventFlags::IN),
        };
        let modify = |descriptor, flags| epoll::modify(&self.epoll, descriptor, EventData::new_u64(0), flags);
        let modified =
            modify(self.stream.as_fd(), stream).and_then(|()| modify(self.user.events_fd(), sockets));
        Ok(modified.map_err(io::Error::from)?)
    }

    /// Passes frames from the guest to the network. Returns true if there are more.
    fn take_frames(&mut self) -> Result<bool, Disconnected> {
        let mut stream = &self.stream;
        for _ in 0..MAX_BATCH {
            let Some(frame) = non_blocking(self.reader.next(|buffer| stream.read(buffer)))? else {
                return Ok(false);
            };
            self.user.send(VnetHeader::default(), &[VolatileSlice::from(frame)])?;
        }
        Ok(true)
    }

    /// Passes frames from the network to the guest. Returns true if there are more and QEMU takes them.
    fn give_frames(&mut self) -> Result<bool, Disconnected> {
        for _ in 0..MAX_BATCH {
            if !self.writer.has_capacity() && !self.flush()? {
                return Ok(false);
            }
            if !self.user.may_have_frame() {
                return Ok(false);
            }
            let Some(received) = self.user.receive(&[VolatileSlice::from(&mut *self.frame)])? else {
                return Ok(false);
            };
            self.writer.push(self.frame.get(..received.length).unwrap_or_default());
        }
        Ok(true)
    }

    /// Writes frames out. Returns false if QEMU does not take all of them.
    fn flush(&mut self) -> Result<bool, Disconnected> {
        let mut stream = &self.stream;
        Ok(non_blocking(self.writer.flush(|bytes| stream.write(bytes)))?.is_some())
    }
}

/// Converts the result of a call. Returns `None` if the call would block or was interrupted.
fn non_blocking<T>(result: io::Result<T>) -> Result<Option<T>, Disconnected> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        // QEMU has ended.
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
            Err(io::Error::from(ErrorKind::UnexpectedEof).into())
        }
        Err(error) => Err(error.into()),
    }
}
