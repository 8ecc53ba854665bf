//! GDB server: a gdb on this host debugs the guest by the GDB remote protocol.
//!
//! The VM waits before the guest's first instruction until a gdb connects:
//!
//! ```text
//! gdb IMAGE -ex "target remote :PORT"
//! ```
//!
//! The image is loaded at a random address; gdb reads the address (`qOffsets`) and relocates its symbols. vCPUs are
//! gdb's threads, in all-stop mode: when one stops, all are paused before gdb gets the stop reply; while one steps, the
//! others stay paused. After `detach`, and when the connection is lost, the guest runs without breakpoints, and another
//! gdb may connect, which stops it again. `kill` shuts the VM down as SIGTERM does.
//!
//! | module | |
//! | --- | --- |
//! | `registers` | registers in the layout of the protocol |
//! | `memory` | access to guest memory by virtual addresses |
//! | `breakpoints` | software breakpoints |
//! | `debug_registers` | hardware breakpoints and watchpoints |
//! | `debug_target` | the VM as a debug target: resume, step, stop |
//! | `gdbstub_target` | the debug target as one of the crate `gdbstub` |
//! | `session` | a connection |
//! | `epoll` | waiting for several file descriptors |
//! | [`fuzzing`] | a fuzz target |
//!
//! A program that connects to the port controls the guest. Only programs on this host can connect, and the protocol has
//! no authentication: use it where the other users of the host are trusted.

mod breakpoints;
mod debug_registers;
mod debug_target;
mod epoll;
pub mod fuzzing;
mod gdbstub_target;
mod memory;
mod registers;
mod session;

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use hermit_interface::image::Image;

use self::debug_target::DebugTarget;
use self::epoll::PollSet;
use self::session::SessionEnd;
use crate::boot::KernelEntry;
use crate::log::say;
use crate::memory::Memory;
use crate::vcpu_manager::VcpuManager;
use crate::vm_handle::{ShutdownCause, VmHandle};

/// Listening socket for gdb, and facts of the guest that gdb needs.
#[derive(Debug)]
pub struct GdbServer {
    listener: TcpListener,
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
    /// Listens on a port of the loopback interface; with 0, on any free port.
    ///
    /// # Errors
    ///
    /// The port is taken, or may not be used.
    pub fn listen(
        port: u16,
        file: &Path,
        image: &Image<'_>,
        entry: &KernelEntry,
        memory: Memory,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen on port {port} for gdb: {error}"))
        })?;
        let first = image.segments().next().map_or(0, |segment| segment.start);
        let location = ImageLocation { start: entry.image, first_segment: entry.image.wrapping_add(first) };
        Ok(Self { listener, image: file.to_owned(), location, memory })
    }

    /// Returns the body of the gdb thread, and the handle by which the main thread hands the vCPUs over to it.
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
            let target = DebugTarget::new(vcpus, vm, self.memory, self.location.first_segment);
            let vcpus = serve_all(&self.listener, &connections, target);
            // If the main thread waits no longer, this drops the manager, and the vCPU threads exit.
            let _: Result<(), mpsc::SendError<VcpuManager>> = to_main.send(vcpus);
        };
        Ok((thread, debugger))
    }

    /// Prints the command line for gdb.
    ///
    /// # Errors
    ///
    /// getsockname(2) failed.
    pub fn announce(&self) -> io::Result<()> {
        let port = self.listener.local_addr()?.port();
        let (image, start) = (self.image.to_string_lossy(), self.location.start);
        let image = shlex::try_quote(&image).unwrap_or_default();
        say(format_args!(
            "waits for gdb; the image is at {start:#x}:\n    gdb {image} -ex \"target remote :{port}\""
        ));
        Ok(())
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
        // If that thread has exited, this drops the manager: the vCPU threads exit.
        let _: Result<(), mpsc::SendError<VcpuManager>> = self.to_gdb.send(vcpus);
    }

    /// Shuts the VM down, and makes gdb thread and vCPU threads exit, each within `timeout`.
    pub fn shut_down(self, timeout: Duration) {
        self.vm.shut_down(ShutdownCause::Requested);
        // A gdb that reads nothing can delay the thread: after the timeout, the vCPU threads exit when it drops their
        // manager.
        if let Ok(vcpus) = self.from_gdb.recv_timeout(timeout) {
            vcpus.shut_down(timeout);
        }
    }
}

/// Serves one gdb after the other until the VM shuts down.
fn serve_all(listener: &TcpListener, connections: &PollSet, mut target: DebugTarget) -> VcpuManager {
    while let Some(stream) = accept(listener, connections, target.vm()) {
        target.pause();
        match session::run(stream, &mut target) {
            Ok(SessionEnd::Detached) => {}
            Ok(SessionEnd::Killed) => target.vm().shut_down(ShutdownCause::Requested),
            Err(error) => say(format_args!("the connection to gdb has failed, the guest continues: {error}")),
        }
        target.detach();
    }
    target.into_vcpus()
}

/// Accepts the next connection; returns `None` once the VM has shut down.
fn accept(listener: &TcpListener, connections: &PollSet, vm: &VmHandle) -> Option<TcpStream> {
    while vm.shutdown_cause().is_none() {
        let ready = connections.wait();
        if vm.shutdown_cause().is_some() {
            break;
        }
        match ready.and_then(|_| listener.accept()) {
            Ok((stream, _)) => return Some(stream),
            Err(error) => say(format_args!("cannot accept a connection of gdb: {error}")),
        }
    }
    None
}
