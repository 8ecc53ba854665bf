//! A server for gdb: a machine that is debugged from outside, with the guest none the wiser.
//!
//! The machine waits before the guest's first instruction until a gdb on this host connects:
//!
//! ```text
//! gdb IMAGE -ex "target remote :PORT"
//! ```
//!
//! The image lies at a random address; gdb asks for it and moves its symbols there. Processors are gdb's threads. When
//! one of them stops, all of them have stopped before gdb hears of it; while one of them steps, the others stay where
//! they are. After `detach`, and when the connection is lost, the guest runs on without breakpoints, and another gdb may
//! connect, which stops it again; `kill` ends the machine as SIGTERM does.
//!
//! | module | is about |
//! | --- | --- |
//! | `registers` | registers as gdb's protocol has them |
//! | `memory` | memory behind the guest's page tables |
//! | `breakpoints` | instructions that were replaced by `int3` |
//! | `watchpoints` | the debug registers |
//! | `guest` | the machine as a debugger treats it: stops, runs, steps |
//! | `target` | the same as the crate `gdbstub` wants to see it |
//! | `session` | one gdb's connection, from first to last packet |
//! | `wait` | waiting for whichever comes first |
//!
//! Whoever can connect to the port has the guest in hand. Only programs on this host can, and gdb's protocol knows no
//! password: debug where the other users of the host are trusted.

mod breakpoints;
mod guest;
mod memory;
mod registers;
mod session;
mod target;
mod wait;
mod watchpoints;

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use hermit_interface::image::Image;

use self::guest::Guest;
use self::session::Outcome;
use self::wait::Wait;
use crate::boot::Entry;
use crate::control::Controller;
use crate::log::say;
use crate::machine::{End, Machine};
use crate::memory::Memory;

/// Where a gdb can connect, and what it must be told.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    image: PathBuf,
    place: Place,
    memory: Memory,
}

/// Where the image lies in the guest's virtual memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// What the file calls address 0.
    start: u64,
    /// Its first segment, from which gdb reckons the others.
    first_segment: u64,
}

impl Server {
    /// Listens on a port of this host; 0 is any that is free.
    ///
    /// # Errors
    ///
    /// If the host does not give the port.
    pub fn listen(
        port: u16,
        file: &Path,
        image: &Image<'_>,
        entry: &Entry,
        memory: Memory,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| io::Error::new(error.kind(), format!("no port {port} for gdb: {error}")))?;
        let first = image.segments().next().map_or(0, |segment| segment.start);
        let place = Place { start: entry.image, first_segment: entry.image.wrapping_add(first) };
        Ok(Self { listener, image: file.to_owned(), place, memory })
    }

    /// Prepares to have processors in hand: what the thread for it does, and what to hand the processors over to.
    ///
    /// # Errors
    ///
    /// If the host has no more events.
    pub fn prepare(self, machine: &Arc<Machine>) -> io::Result<(impl FnOnce() + Send + 'static, Debugger)> {
        let connections = Wait::new(&[&self.listener, machine.ended()])?;
        let (hand_over, handed_over) = mpsc::channel();
        let (give_back, given_back) = mpsc::channel();
        let debugger = Debugger { machine: Arc::clone(machine), hand_over, given_back };
        let machine = Arc::clone(machine);
        let work = move || {
            let Ok(controller) = handed_over.recv() else { return };
            let guest = Guest::new(controller, machine, self.memory, self.place.first_segment);
            let controller = serve_all(&self.listener, &connections, guest);
            // Who does not want it drops it: without their controller the threads end by themselves.
            let _: Result<(), mpsc::SendError<Controller>> = give_back.send(controller);
        };
        Ok((work, debugger))
    }

    /// Says where gdb is to connect.
    ///
    /// # Errors
    ///
    /// If the host does not know the port.
    pub fn announce(&self) -> io::Result<()> {
        let port = self.listener.local_addr()?.port();
        let (image, start) = (self.image.display(), self.place.start);
        say(format_args!("waits for gdb {image} -ex \"target remote :{port}\" (the image is at {start:#x})"));
        Ok(())
    }
}

/// The thread that has the processors in hand.
#[derive(Debug)]
pub struct Debugger {
    machine: Arc<Machine>,
    hand_over: Sender<Controller>,
    given_back: Receiver<Controller>,
}

impl Debugger {
    /// Lets gdb control the processors.
    pub fn hand_over(&self, controller: Controller) {
        // A thread that has ended drops it: without their controller the processors' threads end, and with them the machine.
        let _: Result<(), mpsc::SendError<Controller>> = self.hand_over.send(controller);
    }

    /// Ends the machine, if it has not ended, and its processors' threads, but does not wait longer than that for each.
    pub fn end(self, patience: Duration) {
        self.machine.finish(End::Stopped);
        // A gdb that takes nothing must not keep the machine: without their controller the threads end by themselves.
        if let Ok(controller) = self.given_back.recv_timeout(patience) {
            controller.end(patience);
        }
    }
}

/// One gdb after the other, until the machine has ended.
fn serve_all(listener: &TcpListener, connections: &Wait, mut guest: Guest) -> Controller {
    while let Some(stream) = next(listener, connections, &guest) {
        guest.stop();
        match session::run(stream, &mut guest) {
            Ok(Outcome::Detached) => {}
            Ok(Outcome::Killed) => guest.machine().finish(End::Stopped),
            Err(error) => say(format_args!("gdb is gone, the guest runs on: {error}")),
        }
        guest.let_go();
    }
    guest.into_controller()
}

/// The next connection; none once the machine has ended.
fn next(listener: &TcpListener, connections: &Wait, guest: &Guest) -> Option<TcpStream> {
    while guest.machine().end().is_none() {
        let ready = connections.next();
        if guest.machine().end().is_some() {
            break;
        }
        match ready.and_then(|_| listener.accept()) {
            Ok((stream, _)) => return Some(stream),
            Err(error) => say(format_args!("a gdb could not connect: {error}")),
        }
    }
    None
}
