//! Errors of the process engine.

use std::io;

use crate::engine::EngineError;

/// Why a guest cannot run as a process.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The host lacks a feature that the engine needs.
    #[error("a guest cannot run as a process here: {0}")]
    Unsupported(&'static str),
    /// A system call failed.
    #[error("the host refuses {call} for the guest's process: {source}{hint}", hint = hint(.call))]
    Syscall {
        /// Name of the system call.
        call: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
    /// The guest's process exited before it reached the kernel's entry point.
    #[error("the guest's process ended before it entered the kernel: {0}")]
    Exited(String),
}

impl From<ProcessError> for EngineError {
    fn from(error: ProcessError) -> Self {
        Self::Backend(Box::new(error))
    }
}

/// Converts the error of the system call `call` into a [`ProcessError`].
pub(super) fn syscall_failed<E: Into<io::Error>>(call: &'static str) -> impl Fn(E) -> ProcessError {
    move |error| ProcessError::Syscall { call, source: error.into() }
}

/// Returns advice for the user if the failure has a usual cause, otherwise an empty text.
fn hint(call: &str) -> &'static str {
    match call {
        "seccomp" => {
            " (Linux 5.19 or newer is needed, and a container that listens to no system calls itself)"
        }
        "execveat" | "memfd_create" => " (the sysctl vm.memfd_noexec must not be 2)",
        "mmap" | "mprotect" => " (is there a limit: ulimit -v?)",
        "clone" => " (is there a limit: ulimit -u, or pids of the container?)",
        "timer_create" => " (is there a limit: ulimit -i?)",
        "ptrace" => {
            " (for --gdb; the sysctl kernel.yama.ptrace_scope must not be above 1, and a container must let it)"
        }
        "fcntl" | "dup2" => " (is there a limit: ulimit -n? 256 descriptors are needed)",
        _ => "",
    }
}
