//! vCPUs of the process engine that can be debugged, by ptrace(2).
//!
//! Each vCPU thread of the hypervisor traces one CPU's thread in the guest's process. Linux demands this
//! pairing: only the thread that has seized a tracee may access the tracee's registers. There is no seccomp
//! listener. Instead, a hypercall stops the tracee (`SECCOMP_RET_TRACE`), as a signal does, and the tracer
//! decodes the hypercall. So all events stop a CPU in the same way, and it stays stopped until the tracer
//! resumes it.
//!
//! | module | |
//! | --- | --- |
//! | `tracee` | a traced thread: stop, resume, step |
//! | `signals` | its blocked and pending signals |
//! | `registers` | its registers |
//! | `debug_registers` | its debug registers |
//! | `page_tables` | address translation by the guest's page tables |
//! | `requests` | ptrace(2) requests that nix lacks |
//! | `vcpu` | the [`Vcpu`] |

mod debug_registers;
mod page_tables;
mod registers;
mod requests;
mod signals;
mod tracee;
mod vcpu;

use std::sync::{Arc, Barrier, OnceLock};

use hermit_interface::to_usize;
use nix::unistd::Pid;

use self::vcpu::TracedVcpu;
use super::Shared;
use super::bootstrap::Bootstrap;
use super::guest_process::PausedProcess;
use crate::engine::Vcpu;
use crate::image::boot::KernelEntry;

/// State that the traced vCPUs of a VM share.
#[derive(Debug)]
struct TracedVm {
    shared: Arc<Shared>,
    entry: OnceLock<KernelEntry>,
    paused: OnceLock<PausedProcess>,
    /// Thread ID of the process's first thread.
    first_thread: OnceLock<Pid>,
    /// Barrier at which the vCPU threads wait until each has seized its tracee. No tracee may make a system
    /// call before all are seized.
    all_seized: Barrier,
}

impl TracedVm {
    fn kill(&self) {
        self.shared.kill();
    }
}

impl Drop for TracedVm {
    /// Kills the process, and reaps its first thread. The last vCPU drops this state, so the other threads
    /// are already reaped.
    fn drop(&mut self) {
        if let Some(first) = self.first_thread.get() {
            self.kill();
            tracee::reap(*first);
        }
    }
}

/// Creates `count` vCPUs. The boot CPU starts the process.
pub(super) fn vcpus(shared: &Arc<Shared>, count: u32, bootstrap: Bootstrap) -> Vec<Box<dyn Vcpu>> {
    let mut bootstrap = Some(bootstrap.traced());
    let vm = Arc::new(TracedVm {
        shared: Arc::clone(shared),
        entry: OnceLock::new(),
        paused: OnceLock::new(),
        first_thread: OnceLock::new(),
        all_seized: Barrier::new(to_usize(count.into())),
    });
    let vcpu = |id| -> Box<dyn Vcpu> { Box::new(TracedVcpu::new(Arc::clone(&vm), id, bootstrap.take())) };
    (0..count).map(vcpu).collect()
}

#[cfg(test)]
mod tests;
