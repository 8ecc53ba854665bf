//! Threads that start work only when all of them are confined.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use super::{Role, Sandbox, SandboxError};

/// Result of confining a thread.
type Confined = Result<(), SandboxError>;

/// Gate before the threads' work. It is set once: it opens (true) or is abandoned (false).
#[derive(Debug)]
struct Gate(Arc<OnceLock<bool>>);

impl Drop for Gate {
    fn drop(&mut self) {
        // Fails if the gate is already open, because the threads have started their work.
        let _: Result<(), bool> = self.0.set(false);
    }
}

/// Threads of a confined process that wait for [`start`](Self::start). If this value is dropped instead, the
/// threads exit without starting their work.
#[derive(Debug)]
pub struct Threads {
    sandbox: Arc<Sandbox>,
    handles: Vec<JoinHandle<()>>,
    gate: Gate,
    /// Channel on which each thread reports whether it is confined.
    confined: (Sender<Confined>, Receiver<Confined>),
}

impl Threads {
    /// Confines the process, which must have one thread.
    ///
    /// # Errors
    ///
    /// See [`Sandbox::confine_process`].
    pub fn new(mut sandbox: Sandbox) -> Result<Self, SandboxError> {
        sandbox.confine_process()?;
        Ok(Self {
            sandbox: Arc::new(sandbox),
            handles: Vec::new(),
            gate: Gate(Arc::new(OnceLock::new())),
            confined: mpsc::channel(),
        })
    }

    /// Drops the privileges that only the start of the guest's process requires.
    ///
    /// # Errors
    ///
    /// See [`Sandbox::drop_last_capability`].
    pub fn processes_started(&self) -> Result<(), SandboxError> {
        self.sandbox.drop_last_capability()
    }

    /// Creates a thread that confines itself to `role` at once, and calls `work` after
    /// [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// The host cannot create a thread.
    pub fn spawn(
        &mut self,
        name: String,
        role: Role,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let (sandbox, gate) = (Arc::clone(&self.sandbox), Arc::clone(&self.gate.0));
        let confined = self.confined.0.clone();
        let thread = thread::Builder::new().name(name).spawn(move || {
            // Fails if `Threads` was dropped. Then the gate is abandoned, and the thread exits.
            let _: Result<(), mpsc::SendError<_>> = confined.send(sandbox.enter(role));
            drop(confined);
            if *gate.wait() {
                work();
            }
        })?;
        self.handles.push(thread);
        Ok(())
    }

    /// Confines the calling thread to [`Role::Main`], waits until all threads are confined, and starts their
    /// work.
    ///
    /// # Errors
    ///
    /// See [`Sandbox::enter`].
    pub fn start(self) -> Result<Vec<JoinHandle<()>>, SandboxError> {
        let Self { sandbox, handles, gate, confined: (sender, confined) } = self;
        drop(sender);
        sandbox.enter(Role::Main)?;
        for _ in &handles {
            confined.recv().map_err(|_| SandboxError::Thread)??;
        }
        let _: Result<(), bool> = gate.0.set(true);
        Ok(handles)
    }
}
