//! Processors of a guest's process that are debugged, by ptrace(2).
//!
//! Each processor's thread here traces that processor's thread in the process: only a tracer sees and sets registers, and
//! only the thread that traces may ask for it. There is no listener for system calls. What the filter does not allow
//! stops the thread that makes it, and so do signals; its tracer finds out what is meant. So a processor
//! stops for whatever reason in one place, and stays where it is until it is told to run.
//!
//! | module | |
//! | --- | --- |
//! | `tracee` | a thread in the hands of its tracer: stops, runs, steps |
//! | `signals` | the signals that it does not take, and those that wait for it |
//! | `registers` | its registers |
//! | `hardware` | its debug registers |
//! | `tables` | its memory, by way of the guest's page tables |
//! | `vcpu` | all of that as a processor |

mod hardware;
mod registers;
mod signals;
mod tables;
mod tracee;
mod vcpu;

use std::sync::{Arc, Barrier, OnceLock};

use hermit_interface::to_usize;
use nix::unistd::Pid;
use rustix::process::{Signal, pidfd_send_signal};

use self::vcpu::TracedVcpu;
use super::Shared;
use super::beginning::Beginning;
use super::child::Held;
use super::clock::Clock;
use crate::boot::Entry;
use crate::engine::Vcpu;

/// What the processors of a machine have in common.
#[derive(Debug)]
struct Common {
    shared: Arc<Shared>,
    entry: OnceLock<Entry>,
    held: OnceLock<Held>,
    /// The process's first thread.
    first: OnceLock<Pid>,
    /// Where threads wait until each has its processor's thread in hand: before that, no system call may be made.
    all_traced: Barrier,
}

impl Common {
    fn kill(&self) {
        if let Some(process) = self.shared.process.get() {
            // It may have ended.
            let _: rustix::io::Result<()> = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

impl Drop for Common {
    /// Nobody has a thread in hand any more but perhaps this one.
    fn drop(&mut self) {
        if let Some(first) = self.first.get() {
            self.kill();
            tracee::bury(*first);
        }
    }
}

/// So many processors.
pub(super) fn vcpus(shared: &Arc<Shared>, count: u32, clock: Clock) -> Vec<Box<dyn Vcpu>> {
    let common = Arc::new(Common {
        shared: Arc::clone(shared),
        entry: OnceLock::new(),
        held: OnceLock::new(),
        first: OnceLock::new(),
        all_traced: Barrier::new(to_usize(count.into())),
    });
    let vcpu = |number| -> Box<dyn Vcpu> {
        let beginning = (number == 0).then(|| Beginning::new(Arc::clone(shared), count, clock).traced());
        Box::new(TracedVcpu::new(Arc::clone(&common), number, beginning))
    };
    (0..count).map(vcpu).collect()
}
