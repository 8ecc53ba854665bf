//! A guest as a process of the host, for hosts without virtualisation hardware.
//!
//! The guest's kernel runs its code in a process of its own, a child of this one, at full speed. That process has nothing
//! but the machine's memory, a descriptor for each queue of a device, and a filter of system calls
//! ([`hermit_interface::process`] is the contract). The host's kernel hands any other system call to this process
//! instead of carrying it out: either it is [`hermit_interface::process::CALL`], by which the guest reaches device registers and
//! ports, or the guest is ended.
//!
//! | module | |
//! | --- | --- |
//! | `mappings` | what of the memory is mapped where: what page tables say |
//! | `program` | the program that makes the process what it is to be, and then jumps to the kernel |
//! | `script` | the system calls that it makes |
//! | `filter` | the system calls that the kernel may make |
//! | `spawn` | the process, up to its program |
//! | `child` | the process, from its program to its end |
//! | `beginning` | the machine's side of that |
//! | `lifetime` | a process that does not outlive its owner |
//! | `listener` | system calls that are handed to this process |
//! | `request` | what they mean |
//! | `reply` | the answers |
//! | `vcpu` | all of that as a processor, which stands for all processors of the machine |
//! | `traced` | processors that are debugged |
//! | `interrupt` | device's lines |
//! | `clock` | how fast the time-stamp counter is |

mod beginning;
mod child;
mod clock;
mod filter;
mod interrupt;
mod lifetime;
mod listener;
mod mappings;
mod program;
mod reply;
mod request;
mod script;
mod spawn;
mod traced;
mod vcpu;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hermit_interface::machine::{HOLE, LINES};
use hermit_interface::process::{KICKED_QUEUES, kick};
use vmm_sys_util::eventfd::EventFd;

use self::clock::Clock;
use self::interrupt::Line;
use self::vcpu::ProcessVcpu;
use super::{Engine, EngineError, Vcpu};
use crate::devices::virtio::{Interrupt, MmioTransport};
use crate::memory::Memory;

/// Bit of the second word of capabilities that the host's kernel shows to programs: they may set FS and GS (`AT_HWCAP2`,
/// asm/hwcap2.h).
const FSGSBASE: usize = 1 << 1;

/// Why a guest cannot run as a process.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The host lacks something.
    #[error("a guest cannot run as a process here: {0}")]
    Lacks(&'static str),
    /// The host refuses a system call.
    #[error("the host refuses {call} for the guest's process: {source}{hint}", hint = hint(.call))]
    Refused {
        /// Its name.
        call: &'static str,
        /// What the host says.
        source: io::Error,
    },
    /// The process has ended before the guest began.
    #[error("the guest's process was ended before it began: {0}")]
    Ended(String),
}

/// A system call that failed.
fn refused<E: Into<io::Error>>(call: &'static str) -> impl Fn(E) -> ProcessError {
    move |error| ProcessError::Refused { call, source: error.into() }
}

/// What to do about it, where that is known.
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

/// A machine that is a process.
#[derive(Debug)]
pub struct ProcessEngine {
    shared: Arc<Shared>,
    clock: Clock,
    is_debugged: bool,
}

/// What a machine's parts know of each other.
#[derive(Debug)]
struct Shared {
    memory: Memory,
    kicks: Mutex<Vec<Kick>>,
    /// The process, once it is there.
    process: OnceLock<OwnedFd>,
}

/// How the guest tells a device to look at a queue.
#[derive(Debug)]
struct Kick {
    /// The descriptor's number in the guest's process.
    number: u32,
    event: OwnedFd,
}

impl ProcessEngine {
    /// A machine with this memory, which is shared, and no processors.
    ///
    /// # Errors
    ///
    /// See [`ProcessError`].
    pub fn new(memory: Memory) -> Result<Self, EngineError> {
        if rustix::param::linux_hwcap().1 & FSGSBASE == 0 {
            let lack = "the processor, or the host's kernel, lets programs not set FS and GS (FSGSBASE)";
            return Err(ProcessError::Lacks(lack).into());
        }
        if !clock::is_constant() {
            return Err(ProcessError::Lacks("the time-stamp counter's speed is not constant").into());
        }
        let shared = Shared { memory, kicks: Mutex::default(), process: OnceLock::new() };
        Ok(Self { shared: Arc::new(shared), clock: Clock::start(), is_debugged: false })
    }

    /// The same with processors that can be debugged, each by itself. That takes time: whatever they want, and each signal,
    /// stops them.
    #[must_use]
    pub fn debugged(self) -> Self {
        Self { is_debugged: true, ..self }
    }
}

impl Engine for ProcessEngine {
    fn vcpus(&self, count: u32) -> Result<Vec<Box<dyn Vcpu>>, EngineError> {
        if self.is_debugged {
            return Ok(traced::vcpus(&self.shared, count, self.clock));
        }
        Ok(vec![Box::new(ProcessVcpu::new(Arc::clone(&self.shared), count, self.clock))])
    }

    fn interrupt(&self, line: u32) -> Result<Box<dyn Interrupt>, EngineError> {
        Ok(Box::new(Line::new(Arc::clone(&self.shared), line)))
    }

    /// The kick must not block: the guest writes to it, too.
    fn notify(&self, address: u64, queue: u32, kick_event: &EventFd) -> Result<(), EngineError> {
        let line = u32::try_from(address.saturating_sub(HOLE.start) / MmioTransport::SIZE).unwrap_or(LINES);
        if line < LINES && queue < KICKED_QUEUES {
            let event = spawn::owned(kick_event.try_clone().map_err(refused("fcntl"))?);
            let mut kicks = self.shared.kicks.lock().unwrap_or_else(PoisonError::into_inner);
            kicks.push(Kick { number: kick(line, queue), event });
        }
        Ok(())
    }
}
