//! A process that does not outlive its owner.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use signal_hook::low_level::signal_name;

use crate::engine::Exit;

/// A child of this process, which is killed when it is dropped, and nothing of it is left then.
#[derive(Debug)]
pub(super) struct Process {
    descriptor: OwnedFd,
    ended: Option<Ended>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By a signal.
    Signal(i32),
    /// With a status.
    Status(i32),
    /// Somebody else has waited for it.
    Unknown,
}

impl Ended {
    /// In words.
    pub(super) fn describe(self) -> String {
        match self {
            Self::Status(status) => format!("it exited with status {status}"),
            Self::Signal(libc::SIGKILL) => {
                "SIGKILL from outside; perhaps the host has no memory left".to_owned()
            }
            Self::Signal(signal) => {
                signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
            }
            Self::Unknown => "it is gone".to_owned(),
        }
    }

    /// What that is to the machine, and why.
    pub(super) fn exit(self) -> (Exit<'static>, String) {
        // So the filter ends what is no system call of this architecture.
        if self == Self::Signal(libc::SIGSYS) {
            return (Exit::Denied, denied("a system call of another architecture"));
        }
        (Exit::Failed, format!("the guest's process was ended: {}", self.describe()))
    }
}

/// The guest tried what it may not do.
pub(super) fn denied(what: &str) -> String {
    format!("the guest was killed by the sandbox: {what}")
}

impl Process {
    pub(super) const fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor, ended: None }
    }

    /// Waits for its end.
    pub(super) fn wait(&mut self) -> Ended {
        if let Some(ended) = self.ended {
            return ended;
        }
        let status = loop {
            match waitid(WaitId::PidFd(self.descriptor.as_fd()), WaitIdOptions::EXITED) {
                Err(Errno::INTR) => {}
                status => break status.ok().flatten(),
            }
        };
        let ended = status.map_or(Ended::Unknown, |status| {
            let signal = status.terminating_signal().map(Ended::Signal);
            signal.unwrap_or_else(|| Ended::Status(status.exit_status().unwrap_or_default()))
        });
        self.ended = Some(ended);
        ended
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // It may have ended meanwhile.
            let _: rustix::io::Result<()> = pidfd_send_signal(&self.descriptor, Signal::KILL);
            self.wait();
        }
    }
}
