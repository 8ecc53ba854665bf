//! What the hypervisor gives up before its guest runs, so that a guest that takes it over has gained nothing.
//!
//! | module | takes away |
//! | --- | --- |
//! | `descriptors` | what the hypervisor's parent has left open |
//! | `privileges` | capabilities, and any way to new ones |
//! | `paths` | files, TCP, signals to others: landlock |
//! | `filters`, `calls` | all system calls but those that a thread of its [`Role`] needs: seccomp |
//!
//! `denial` reports a system call that is not allowed, and ends the process; `panics` and `allocator` keep Rust's
//! library and the C library from making some. [`Threads`] starts threads so that no guest
//! runs before everything is confined. `docs/sandbox.md` says what is allowed and why.
//!
//! Nothing of this can be undone, and all of it holds for the thread that asks and for those that it starts later.
//! Whoever uses this crate as a library gives the machine a thread of its own.

mod allocator;
mod calls;
mod denial;
mod descriptors;
mod filters;
mod panics;
mod paths;
mod privileges;
mod threads;

use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;

pub use denial::EXIT_CODE;
pub use descriptors::close_inherited;
use filters::Filters;
pub(crate) use paths::empty_rules;
pub use threads::Threads;

/// Why the hypervisor cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The list of open descriptors cannot be read.
    #[error("sandbox: cannot list open descriptors in /proc/self/fd: {0}")]
    Descriptors(io::Error),
    /// Capabilities cannot be dropped.
    #[error("sandbox: cannot drop privileges: {0}")]
    Privileges(io::Error),
    /// The host refuses the rules for files.
    #[error("sandbox: cannot take away files: {0}")]
    Paths(#[from] landlock::RulesetError),
    /// A folder of the rules cannot be opened.
    #[error("sandbox: cannot open {path}: {source}", path = .path.display())]
    Folder {
        /// Its path.
        path: PathBuf,
        /// What the host says.
        source: landlock::PathFdError,
    },
    /// There is no telling which system call was denied.
    #[error("sandbox: cannot handle denied system calls: {0}")]
    Handler(io::Error),
    /// The allowed system calls make no filter.
    #[error("sandbox: cannot make a filter of system calls: {0}")]
    Compile(#[from] seccompiler::BackendError),
    /// The host refuses a filter.
    #[error("sandbox: cannot filter system calls of thread {role}: {source}")]
    Filter {
        /// Whose.
        role: Role,
        /// What the host says.
        source: seccompiler::Error,
    },
    /// A thread has ended before it was confined.
    #[error("sandbox: a thread has ended before it was confined")]
    Thread,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for the machine's end and stops its processors.
    Main,
    /// Runs a processor.
    Vcpu,
    /// Serves the queues of devices.
    Devices,
    /// Serves the queues of the network.
    Network,
    /// Talks to a debugger.
    Gdb,
}

impl Role {
    /// As it is called in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Vcpu => "vcpu",
            Self::Devices => "devices",
            Self::Network => "network",
            Self::Gdb => "gdb",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What stays allowed besides what every machine needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Folders that stay accessible.
    pub folders: Vec<Folder>,
    /// A debugger reads and writes the processors' registers.
    pub debugger: bool,
    /// The guest is a process ([`crate::engine::process`]), not a machine of KVM's.
    pub process: bool,
    /// The tap to which the network's thread writes.
    pub tap: Option<RawFd>,
}

/// A folder of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// Nothing in it can be changed.
    pub read_only: bool,
}

/// The confinement of one machine's process.
#[derive(Debug)]
pub struct Sandbox(Option<Confinement>);

#[derive(Debug)]
struct Confinement {
    folders: Vec<Folder>,
    filters: Filters,
}

impl Sandbox {
    /// Prepares everything that can be prepared: what is left is quick.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Compile`].
    pub fn new(rules: Rules) -> Result<Self, SandboxError> {
        let filters = Filters::new(&rules)?;
        Ok(Self(Some(Confinement { folders: rules.folders, filters })))
    }

    /// No confinement at all: for debugging the hypervisor.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Gives up privileges and files. To be called when everything is open and no thread is started, once.
    ///
    /// # Errors
    ///
    /// See [`SandboxError`]. The process is then confined in part.
    pub fn confine_process(&self) -> Result<(), SandboxError> {
        let Some(confinement) = &self.0 else { return Ok(()) };
        allocator::stay_within_memory();
        panics::report();
        denial::report().map_err(SandboxError::Handler)?;
        privileges::drop_all().map_err(SandboxError::Privileges)?;
        paths::restrict(&confinement.folders)
    }

    /// Leaves the calling thread only the system calls of its role.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Filter`].
    pub fn enter(&self, role: Role) -> Result<(), SandboxError> {
        self.0.as_ref().map_or(Ok(()), |confinement| confinement.filters.enter(role))
    }
}
