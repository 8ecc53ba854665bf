//! GDB server: a gdb on this host debugs the guest with the GDB remote protocol.
//!
//! The VM waits before the guest's first instruction until a gdb connects:
//!
//! ```text
//! gdb IMAGE -ex "target remote :PORT"
//! gdb IMAGE -ex "target remote PATH"
//! ```
//!
//! The image is loaded at a random address; gdb reads the address (`qOffsets`) and relocates its symbols. gdb
//! sees each vCPU as a thread, in all-stop mode: when one vCPU stops, all are paused before gdb gets the stop
//! reply. While one vCPU steps, the others stay paused. After `detach` the guest runs without breakpoints,
//! until another gdb connects and stops it again. A lost connection has the same effect as `detach`, unless
//! no gdb has resumed the guest yet: then the guest waits for another gdb. `kill` shuts the VM down as
//! SIGTERM does.
//!
//! | module | |
//! | --- | --- |
//! | `registers` | registers in the layout of the protocol |
//! | `memory` | access to guest memory by virtual addresses |
//! | `breakpoints` | software breakpoints |
//! | `debug_registers` | hardware breakpoints and watchpoints |
//! | `debug_target` | the VM as a debug target: resume, step, stop |
//! | `gdbstub_target` | the debug target as one of the crate `gdbstub` |
//! | `session` | packets of a connection |
//! | `connection` | connections, by TCP or a UNIX socket |
//! | `peer` | the user of the other end of a TCP connection |
//! | `epoll` | waiting for several file descriptors |
//! | [`fuzzing`] | a fuzz target |
//!
//! A connected program controls the guest, and the protocol has no authentication. So only programs of this
//! process's user and of root can connect. A connection that does not begin like gdb's, such as an HTTP
//! request, is closed, and does not affect the guest.

mod breakpoints;
mod connection;
mod debug_registers;
mod debug_target;
mod epoll;
pub mod fuzzing;
mod gdbstub_target;
mod memory;
mod peer;
mod registers;
mod session;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use hermit_interface::image::Image;

use self::connection::{GdbListener, GdbSocket};
use self::debug_target::DebugTarget;
use self::epoll::PollSet;
use self::session::SessionEnd;
use crate::config::GdbAddress;
use crate::devices::warn_once::WarnOnce;
use crate::host::log::say;
use crate::image::boot::KernelEntry;
use crate::memory::Memory;
use crate::vcpu::manager::VcpuManager;
use crate::vcpu::shutdown::{ShutdownCause, VmHandle};

/// Time after which a failed accept(2) is repeated, for example because the host had no free descriptor.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// First bytes of a connection from gdb: an acknowledgement, a packet, or Ctrl-C.
const FIRST_BYTES: [u8; 4] = *b"+-$\x03";

/// Listening socket for gdb, and the data about the guest that gdb needs.
#[derive(Debug)]
pub struct GdbServer {
    listener: GdbListener,
    image: PathBuf,
    location: ImageLocation,
    memory: Memory,
}

/// Location of the image in the guest's virtual memory.
#[derive(Clone, Copy, Debug)]
struct ImageLocation {
    /// Load address: the virtual address of address 0 in the file.
    start: u64,
    /// Virtual address of the first segment, relative to which gdb relocates the others.
    first_segment: u64,
}

impl GdbServer {
    /// Listens on an address.
    ///
    /// # Errors
    ///
    /// The address is in use or not permitted, or the host does not show which user owns a connection.
    pub fn listen(
        address: &GdbAddress,
        file: &Path,
        image: &Image<'_>,
        entry: &KernelEntry,
        memory: Memory,
    ) -> io::Result<Self> {
        let listener = GdbListener::bind(address)?;
        let first = image.segments().next().map_or(0, |segment| segment.start);
        let location = ImageLocation { start: entry.image, first_segment: entry.image.wrapping_add(first) };
        Ok(Self { listener, image: file.to_owned(), location, memory })
    }

    /// Returns the body of the gdb thread, and the handle with which the main thread hands the vCPUs over to
    /// the gdb thread.
    ///
    /// # Errors
    ///
    /// The host cannot create an epoll instance.
    pub fn prepare(self, vm: &Arc<VmHandle>) -> io::Result<(impl FnOnce() + Send + 'static, Debugger)> {
        let connections = PollSet::new(&[&self.listener, vm.shutdown_event()])?;
        let (to_gdb, from_main) = mpsc::channel();
        let (to_main, from_gdb) = mpsc::channel();
        let debugger = Debugger { vm: Arc::clone(vm), to_gdb, from_gdb };
        let vm = Arc::clone(vm);
        let thread = move || {
            let Ok(vcpus) = from_main.recv() else { return };
            let target = DebugTarget::new(vcpus, Arc::clone(&vm), self.memory, self.location.first_segment);
            let vcpus = Connections::new(&self.listener, &connections, &vm).serve_all(target);
            // If the main thread no longer waits, this drops the manager, and the vCPU threads exit.
            let _: Result<(), mpsc::SendError<VcpuManager>> = to_main.send(vcpus);
        };
        Ok((thread, debugger))
    }

    /// Prints the command line for gdb.
    pub fn announce(&self) {
        let (image, start) = (self.image.to_string_lossy(), self.location.start);
        let image = shlex::try_quote(&image).unwrap_or_default();
        let remote = self.listener.remote();
        say(format_args!(
            "waits for gdb; the image is at {start:#x}:\n    gdb {image} -ex \"target remote {remote}\""
        ));
    }
}

/// Handle of the gdb thread, which owns the vCPUs.
#[derive(Debug)]
pub struct Debugger {
    vm: Arc<VmHandle>,
    to_gdb: Sender<VcpuManager>,
    from_gdb: Receiver<VcpuManager>,
}

impl Debugger {
    /// Hands the vCPUs over to the gdb thread.
    pub fn hand_over(&self, vcpus: VcpuManager) {
        // If the gdb thread has exited, this drops the manager, and the vCPU threads exit.
        let _: Result<(), mpsc::SendError<VcpuManager>> = self.to_gdb.send(vcpus);
    }

    /// Shuts the VM down. Makes the gdb thread exit within `timeout`, and then the vCPU threads within
    /// another `timeout`.
    pub fn shut_down(self, timeout: Duration) {
        self.vm.shut_down(ShutdownCause::Requested);
        // A gdb that reads nothing can delay the gdb thread beyond the timeout. Then the vCPU threads exit
        // later, when the gdb thread drops their manager.
        if let Ok(vcpus) = self.from_gdb.recv_timeout(timeout) {
            vcpus.shut_down(timeout);
        }
    }
}

/// Connections to the GDB server of a VM.
#[derive(Debug)]
struct Connections<'a> {
    listener: &'a GdbListener,
    /// Events: a new connection, and the shutdown of the VM.
    events: &'a PollSet,
    vm: &'a VmHandle,
    /// Warns only once about connections of other users and programs, so that these cannot fill the log.
    strangers: WarnOnce,
}

impl<'a> Connections<'a> {
    fn new(listener: &'a GdbListener, events: &'a PollSet, vm: &'a VmHandle) -> Self {
        Self { listener, events, vm, strangers: WarnOnce::default() }
    }

    /// Serves one gdb after the other until the VM shuts down. Returns the vCPUs.
    fn serve_all(mut self, mut target: DebugTarget) -> VcpuManager {
        while let Some(socket) = self.next_gdb() {
            target.pause();
            match session::run(&socket, &mut target) {
                Ok(SessionEnd::Detached) => target.detach(),
                Ok(SessionEnd::Killed) => {
                    self.vm.shut_down(ShutdownCause::Requested);
                    target.detach();
                }
                Err(error) if target.has_run() => {
                    say(format_args!("the connection to gdb has failed, the guest continues: {error}"));
                    target.detach();
                }
                Err(error) => {
                    say(format_args!(
                        "the connection to gdb has failed, the guest waits for another one: {error}"
                    ));
                    target.clear();
                }
            }
        }
        target.into_vcpus()
    }

    /// Waits for a connection that begins like gdb's. Returns `None` once the VM has shut down.
    fn next_gdb(&mut self) -> Option<GdbSocket> {
        loop {
            let socket = self.accept()?;
            match self.begins_as_gdb(&socket) {
                Ok(true) => return Some(socket),
                Ok(false) => {}
                Err(error) => self.strangers.warn(format_args!("a connection to gdb's address: {error}")),
            }
        }
    }

    /// Accepts the next connection of a user who may debug the guest; returns `None` once the VM has shut
    /// down.
    fn accept(&mut self) -> Option<GdbSocket> {
        while self.vm.shutdown_cause().is_none() {
            let ready = self.events.wait();
            if self.vm.shutdown_cause().is_some() {
                break;
            }
            match ready.and_then(|_| self.listener.accept()) {
                Ok(socket) => return Some(socket),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.strangers.warn(format_args!("gdb's port has refused {error}"));
                }
                Err(error) => {
                    self.strangers.warn(format_args!("cannot accept a connection of gdb: {error}"));
                    thread::sleep(RETRY_INTERVAL);
                }
            }
        }
        None
    }

    /// Waits for the first byte of a connection, without an effect on the guest. Returns true if gdb may have
    /// sent it. Also returns false if another connection arrives while this one is silent, or if the VM shuts
    /// down.
    fn begins_as_gdb(&self, socket: &GdbSocket) -> io::Result<bool> {
        const SOCKET: u64 = 0;
        let events = PollSet::new(&[socket, self.listener, self.vm.shutdown_event()])?;
        if events.wait()? != SOCKET {
            return Ok(false);
        }
        match socket.peek()? {
            Some(byte) if FIRST_BYTES.contains(&byte) => Ok(true),
            Some(byte) => {
                Err(io::Error::other(format!("it begins with the byte {byte:#x}, not as gdb does")))
            }
            None => Err(io::Error::other("it was closed before it had begun")),
        }
    }
}
