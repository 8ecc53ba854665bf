//! Threads that are all confined before one of them works.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use super::{Role, Sandbox, SandboxError};

/// Whether a thread is confined.
type Entered = Result<(), SandboxError>;

/// Whether threads may work, once that is known.
#[derive(Debug)]
struct Gate(Arc<OnceLock<bool>>);

impl Drop for Gate {
    fn drop(&mut self) {
        // Who works already is not stopped.
        let _: Result<(), bool> = self.0.set(false);
    }
}

/// Threads of a process that is confined; they wait for [`start`](Self::start). Dropped, they end without having worked.
#[derive(Debug)]
pub struct Threads {
    sandbox: Arc<Sandbox>,
    handles: Vec<JoinHandle<()>>,
    gate: Gate,
    /// Each thread says here whether it is confined.
    entered: (Sender<Entered>, Receiver<Entered>),
}

impl Threads {
    /// Confines the process; it has no threads yet.
    ///
    /// # Errors
    ///
    /// See [`Sandbox::confine_process`].
    pub fn new(sandbox: Sandbox) -> Result<Self, SandboxError> {
        sandbox.confine_process()?;
        Ok(Self {
            sandbox: Arc::new(sandbox),
            handles: Vec::new(),
            gate: Gate(Arc::new(OnceLock::new())),
            entered: mpsc::channel(),
        })
    }

    /// A thread that will do `work`.
    ///
    /// # Errors
    ///
    /// If the host has no more threads.
    pub fn spawn(
        &mut self,
        name: String,
        role: Role,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let (sandbox, gate) = (Arc::clone(&self.sandbox), Arc::clone(&self.gate.0));
        let entered = self.entered.0.clone();
        let thread = thread::Builder::new().name(name).spawn(move || {
            // Nobody listens any more if the threads are not wanted; then the gate says so.
            let _: Result<(), mpsc::SendError<_>> = entered.send(sandbox.enter(role));
            drop(entered);
            if *gate.wait() {
                work();
            }
        })?;
        self.handles.push(thread);
        Ok(())
    }

    /// Confines the calling thread as [`Role::Main`], waits until all others are confined, and lets them work.
    ///
    /// # Errors
    ///
    /// See [`Sandbox::enter`].
    pub fn start(self) -> Result<Vec<JoinHandle<()>>, SandboxError> {
        let Self { sandbox, handles, gate, entered: (sender, entered) } = self;
        drop(sender);
        sandbox.enter(Role::Main)?;
        for _ in &handles {
            entered.recv().map_err(|_| SandboxError::Thread)??;
        }
        let _: Result<(), bool> = gate.0.set(true);
        Ok(handles)
    }
}
