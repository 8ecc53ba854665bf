//! Sandbox: the hypervisor drops its privileges before the guest runs. A guest that takes over the hypervisor
//! then gains nothing.
//!
//! Confinement has two steps. First, while the process has only one thread, it gives up files, capabilities
//! and namespaces ([`Sandbox::confine_process`]). Then it starts its threads, and each thread restricts
//! itself to the system calls of its [`Role`] ([`Sandbox::enter`]).
//!
//! | module | drops |
//! | --- | --- |
//! | `descriptors` | inherited file descriptors |
//! | `jail` | the host's namespaces, root folder and user, if `--jail` is given |
//! | `privileges` | capabilities, and the ways to regain them; core dumps and access by other processes |
//! | `paths` | files, TCP, signals to other processes: landlock |
//! | `speculation` | side channels of speculative execution, and of hyperthreads |
//! | `filters`, `calls` | system calls that a thread of a [`Role`] does not need: seccomp |
//!
//! [`protections`] lists the parts that a host may lack. `denial` reports a denied system call and exits the
//! process; `at_once` does so after a signal. `panics` and `allocator` keep the standard library and the C
//! library from making denied calls. [`Threads`] starts the threads so that no guest runs before all of them
//! are confined. `docs/sandbox.md` lists the allowed calls and their reasons.
//!
//! The confinement cannot be undone. It holds for the calling thread and the threads that it starts later. So
//! a program that uses this crate as a library starts the VM from a separate thread, and its other threads
//! stay unconfined.

mod allocator;
mod at_once;
pub(crate) mod bpf;
mod calls;
mod denial;
mod descriptors;
pub(crate) mod filter_cost;
mod filters;
pub(crate) mod jail;
mod panics;
mod paths;
mod privileges;
pub mod protections;
pub(crate) mod speculation;
mod threads;

use std::fmt;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

pub(crate) use at_once::{exit_on, report_abort};
pub use denial::EXIT_CODE;
pub use descriptors::close_inherited;
pub(crate) use descriptors::take_inherited;
pub use jail::JailError;
pub(crate) use paths::{LandlockLevel, empty_ruleset};
pub(crate) use privileges::core_limit;
pub use threads::Threads;

use rustix::thread::CapabilitySet;

use crate::config::Mitigations;
use crate::config::jail::Jail;

/// Why the hypervisor cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The list of open file descriptors cannot be read.
    #[error("sandbox: cannot list open descriptors in /proc/self/fd: {0}")]
    Descriptors(io::Error),
    /// Capabilities cannot be dropped.
    #[error("sandbox: cannot drop privileges: {0}")]
    Privileges(io::Error),
    /// See [`JailError`].
    #[error(transparent)]
    Jail(#[from] JailError),
    /// Landlock cannot be enforced.
    #[error("sandbox: cannot restrict access to files: {0}")]
    Paths(#[from] landlock::RulesetError),
    /// The host's landlock lacks some restrictions that the isolation of a process guest relies on.
    #[error(
        "sandbox: landlock is {0}. A guest that runs as a process relies on it; --allow-partial-sandbox runs the guest \
         nevertheless"
    )]
    Incomplete(&'static str),
    /// The host has landlock, but does not enforce it.
    #[error("sandbox: the host's kernel has landlock, but does not enforce it")]
    NotEnforced,
    /// The handler of SIGSYS cannot be installed.
    #[error("sandbox: cannot install a handler for denied system calls: {0}")]
    Handler(io::Error),
    /// A seccomp filter cannot be installed.
    #[error("sandbox: cannot install the seccomp filter of thread {role}: {source}")]
    Filter {
        /// Role of the thread.
        role: Role,
        /// Error of the host.
        source: seccompiler::Error,
    },
    /// A thread has exited before it was confined.
    #[error("sandbox: a thread has exited before it was confined")]
    Thread,
}

/// Role of a thread, which determines the system calls that it may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Main thread: waits for the shutdown, and stops the vCPUs.
    Main,
    /// vCPU thread.
    Vcpu,
    /// Device thread: processes the virtqueues of entropy and console input. The host never blocks the thread
    /// at these.
    Devices,
    /// Disk thread: processes the virtqueue of one disk.
    Disk,
    /// Files thread: processes the virtqueues of one mount.
    Files,
    /// Files thread of a mount that cannot be changed.
    ReadOnlyFiles,
    /// Network thread: processes the virtqueues of the network device.
    Network,
    /// Output thread: processes the virtqueue of standard output or standard error.
    Output,
    /// gdb thread: serves a debugger.
    Gdb,
}

impl Role {
    /// Returns the role's name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Vcpu => "vcpu",
            Self::Devices => "devices",
            Self::Disk => "disk",
            Self::Files => "files",
            Self::ReadOnlyFiles => "files:ro",
            Self::Network => "network",
            Self::Output => "output",
            Self::Gdb => "gdb",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Permissions that only some VMs need.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Folders that remain accessible.
    pub folders: Vec<Folder>,
    /// True if vCPU threads may use their engine's system calls for debugging.
    pub debugger: bool,
    /// True if the guest is a process ([`crate::engine::process`]). Threads may then use its seccomp listener
    /// and its pidfd, and may not use KVM.
    pub process: bool,
    /// True if the guest may be a process although landlock is incomplete.
    pub allow_partial: bool,
    /// File descriptor of the tap that the network thread may use.
    pub tap: Option<RawFd>,
    /// True if the network thread opens sockets for the guest's connections.
    pub sockets: bool,
    /// File descriptor of the guest's memory, so that vCPU threads may return parts of it to the host; `None`
    /// if the memory is private.
    pub memory: Option<RawFd>,
    /// True if the threads of disks, mounts and the network may set timers for their rate limits.
    pub rate_limits: bool,
    /// Jail that the process enters.
    pub jail: Option<Jail>,
    /// Kinds of speculative execution that are disabled.
    pub mitigations: Mitigations,
    /// Descriptors of files, folders, devices and FIFOs that were open before the process was confined. Files
    /// threads must not change these files. [`Sandbox::confine_process`] sets this field.
    pub open_files: Vec<RawFd>,
}

impl Rules {
    /// Returns true if the guest's process gets a PID namespace of its own. This requires privileges, so only
    /// a guest in a jail gets one. A guest with a debugger gets none, because its tracers need thread IDs in
    /// uhyve's namespace.
    const fn has_pid_namespace(&self) -> bool {
        self.jail.is_some() && self.process && !self.debugger
    }

    /// Returns the capabilities that are kept until the guest's process is started: those that `CLONE_NEWPID`
    /// requires.
    const fn kept_capabilities(&self) -> CapabilitySet {
        if self.has_pid_namespace() { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() }
    }
}

/// Folder of the host.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Descriptor of the folder. `O_PATH` suffices.
    pub descriptor: Arc<OwnedFd>,
    /// True if files in it cannot be changed.
    pub read_only: bool,
}

/// Returns an error if landlock is incomplete. If it may be incomplete, prints a warning instead.
fn require_landlock(level: LandlockLevel, may_be_incomplete: bool) -> Result<(), SandboxError> {
    match (level.require(), level.missing()) {
        (Err(error), _) if !may_be_incomplete => Err(error),
        (_, Some(missing)) => {
            protections::warn(&format!("sandbox: {missing}; system calls are filtered all the same"));
            Ok(())
        }
        (_, None) => Ok(()),
    }
}

/// Confinement of the hypervisor's process.
#[derive(Debug)]
pub struct Sandbox(Option<Rules>);

impl Sandbox {
    /// Creates a sandbox with these rules.
    #[must_use]
    pub const fn new(rules: Rules) -> Self {
        Self(Some(rules))
    }

    /// Creates a sandbox that confines nothing, to debug the hypervisor.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Drops privileges and access to files. Call it once, after all files are open, and while the process
    /// has one thread.
    ///
    /// # Errors
    ///
    /// See [`SandboxError`]. After an error the process is partly confined.
    pub fn confine_process(&mut self) -> Result<(), SandboxError> {
        let Some(rules) = &mut self.0 else { return Ok(()) };
        rules.open_files = descriptors::open_files().map_err(SandboxError::Descriptors)?;
        allocator::use_main_arena();
        panics::install_hook();
        denial::install_handler().map_err(SandboxError::Handler)?;
        let landlock = LandlockLevel::of_host();
        // If a guest takes over a files thread, only landlock still keeps the thread inside its folder.
        let needs_landlock = rules.process || !rules.folders.is_empty();
        require_landlock(landlock, rules.allow_partial || !needs_landlock)?;
        // Read before the jail is entered, because a jail has no /sys.
        let has_hyperthreads = speculation::has_hyperthreads();
        rules.jail.as_ref().map_or(Ok(()), |jail| jail::enter(jail, rules.sockets))?;
        speculation::isolate_core(has_hyperthreads);
        speculation::restrict_hypervisor(rules.mitigations).map_err(SandboxError::Privileges)?;
        // Before `take_ids` drops root: removing capabilities from the bounding set requires privileges.
        privileges::forbid_new().map_err(SandboxError::Privileges)?;
        rules.jail.as_ref().map_or(Ok(()), jail::take_ids)?;
        privileges::keep(rules.kept_capabilities()).map_err(SandboxError::Privileges)?;
        privileges::hide().map_err(SandboxError::Privileges)?;
        if rules.jail.is_some() {
            privileges::limit_descriptors(!rules.folders.is_empty() || rules.sockets)
                .map_err(SandboxError::Privileges)?;
        }
        paths::restrict(&rules.folders, rules.sockets, landlock)
    }

    /// Drops the capability that the start of the guest's process requires. Call it after that start.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Privileges`].
    pub fn drop_last_capability(&self) -> Result<(), SandboxError> {
        let drop = |_: &Rules| privileges::keep(CapabilitySet::empty()).map_err(SandboxError::Privileges);
        self.0.as_ref().filter(|rules| !rules.kept_capabilities().is_empty()).map_or(Ok(()), drop)
    }

    /// Restricts the calling thread to the system calls of its role.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Filter`].
    pub fn enter(&self, role: Role) -> Result<(), SandboxError> {
        let Some(rules) = &self.0 else { return Ok(()) };
        // The main thread enters last, so no more threads will be needed. This does not hold on KVM: the
        // first KVM_RUN starts a kernel thread in this process, and would always fail with EAGAIN under this
        // limit.
        if role == Role::Main && rules.jail.is_some() && rules.process {
            privileges::forbid_processes().map_err(SandboxError::Privileges)?;
        }
        filters::enter(role, rules)
    }
}

#[cfg(test)]
mod tests {
    use super::{LandlockLevel, SandboxError, require_landlock};

    #[test]
    fn incomplete_landlock_is_an_error_unless_allowed() {
        for level in [LandlockLevel::Partial, LandlockLevel::Missing] {
            assert!(matches!(require_landlock(level, false), Err(SandboxError::Incomplete(_))), "{level:?}");
            require_landlock(level, true).unwrap();
        }
        require_landlock(LandlockLevel::Complete, false).unwrap();
    }
}
