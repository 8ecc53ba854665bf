//! Child process that does not outlive its owner.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use signal_hook::low_level::signal_name;

use crate::engine::VcpuExit;

/// Child process that is killed and reaped when this is dropped.
#[derive(Debug)]
pub(super) struct OwnedProcess {
    pidfd: OwnedFd,
    status: Option<ExitStatus>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStatus {
    /// A signal killed it.
    Signal(i32),
    /// It exited with this exit code.
    Code(i32),
    /// The status is lost: the process was reaped elsewhere.
    Unknown,
}

impl ExitStatus {
    /// Describes the status for a message.
    pub(super) fn describe(self) -> String {
        match self {
            Self::Code(code) => format!("it exited with status {code}"),
            Self::Signal(libc::SIGKILL) => {
                "SIGKILL from outside; perhaps the host has no memory left".to_owned()
            }
            Self::Signal(signal) => {
                signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
            }
            Self::Unknown => "it is gone".to_owned(),
        }
    }

    /// Converts the end of the guest's process into an exit of its vCPU and a failure message.
    pub(super) fn vcpu_exit(self) -> (VcpuExit<'static>, String) {
        // The filter kills a process that makes a call that is not allowed (SECCOMP_RET_KILL_PROCESS).
        if self == Self::Signal(libc::SIGSYS) {
            return (VcpuExit::Denied, DENIED.to_owned());
        }
        (VcpuExit::Failed, format!("the guest's process has ended: {}", self.describe()))
    }
}

/// Message for [`VcpuExit::Denied`]. It does not name the call: only the host's kernel log has it (audit
/// record `SECCOMP`).
const DENIED: &str = "the guest was killed by the sandbox: it made a system call that it may not make";

impl OwnedProcess {
    pub(super) const fn new(pidfd: OwnedFd) -> Self {
        Self { pidfd, status: None }
    }

    /// Waits for the process to end, and reaps it.
    pub(super) fn wait(&mut self) -> ExitStatus {
        if let Some(status) = self.status {
            return status;
        }
        let found = loop {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
                Err(Errno::INTR) => {}
                found => break found.ok().flatten(),
            }
        };
        let status = found.map_or(ExitStatus::Unknown, |found| {
            let signal = found.terminating_signal().map(ExitStatus::Signal);
            signal.unwrap_or_else(|| ExitStatus::Code(found.exit_status().unwrap_or_default()))
        });
        self.status = Some(status);
        status
    }
}

impl AsFd for OwnedProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Drop for OwnedProcess {
    fn drop(&mut self) {
        if self.status.is_none() {
            // Fails if the process has exited meanwhile.
            let _: rustix::io::Result<()> = pidfd_send_signal(&self.pidfd, Signal::KILL);
            self.wait();
        }
    }
}
