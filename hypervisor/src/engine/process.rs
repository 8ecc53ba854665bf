//! Process engine: a guest as a process of the host, for hosts without virtualisation hardware.
//!
//! The guest's kernel runs at native speed in a child process of the hypervisor. The process has the VM's
//! memory, an eventfd for each virtqueue, and a seccomp filter. [`hermit_interface::process`] is the contract
//! between hypervisor and kernel. The guest accesses device registers and ports by hypercalls. A hypercall is
//! a system call with the number [`hermit_interface::process::CALL`], which Linux does not use. The filter
//! reports each hypercall to the hypervisor (`SECCOMP_RET_USER_NOTIF`). The hypervisor executes the
//! hypercall, and sends a response. The filter allows a few system calls of Linux. All others kill the guest
//! (`SECCOMP_RET_KILL_PROCESS`), and the hypervisor cannot prevent that.
//!
//! | module | |
//! | --- | --- |
//! | `memory_map` | the file mappings that the page tables describe |
//! | `seccomp` | the filter: the system calls that the kernel may make |
//! | `bootstrap` | the ELF program and the system calls that set the process up for the kernel |
//! | `spawn` | `clone` and `execveat` of that program |
//! | `owned_process` | a child process that is killed when its owner is dropped |
//! | `guest_process` | the running process and its system calls |
//! | `seccomp_notify` | the ioctls of a seccomp listener |
//! | `hypercall`, `hypercall_reply` | decoding of hypercalls, and their results |
//! | `vcpu` | a [`Vcpu`] that stands for all CPUs of the VM |
//! | `traced` | vCPUs that can be debugged, by ptrace |
//! | `irq_line` | interrupt lines |
//! | `fds` | numbers of the process's file descriptors |

mod bootstrap;
mod error;
mod fds;
mod guest_process;
mod hypercall;
mod hypercall_reply;
mod irq_line;
mod memory_map;
mod owned_process;
mod seccomp;
mod seccomp_notify;
mod spawn;
mod traced;
mod vcpu;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hermit_interface::machine::{HOLE, LINES};
use hermit_interface::process::{ADDRESSES, MAX_EVENTFD_QUEUES, queue_eventfd};
use rustix::process::{Signal, pidfd_send_signal};
use vmm_sys_util::eventfd::EventFd;

use self::bootstrap::Bootstrap;
use self::bootstrap::syscalls::BootstrapConfig;
use self::error::syscall_failed;
use self::guest_process::StartingProcess;
use self::irq_line::IrqLine;
use self::vcpu::ProcessVcpu;
use super::{Engine, EngineError, Vcpu};
use crate::config::Mitigations;
use crate::devices::tsc::{self, TscCalibration};
use crate::devices::virtio::{Interrupt, MmioTransport};
use crate::memory::Memory;
use crate::sandbox::speculation::{self, Target};

pub use self::error::ProcessError;

/// Bit of `AT_HWCAP2` (asm/hwcap2.h): the host's kernel permits WRFSBASE and WRGSBASE in user space.
const HWCAP2_FSGSBASE: usize = 1 << 1;

/// VM whose guest is a process.
#[derive(Debug)]
pub struct ProcessEngine {
    shared: Arc<Shared>,
    calibration: TscCalibration,
    is_traced: bool,
    has_pid_namespace: bool,
    mitigations: Mitigations,
}

/// State of the VM that its vCPUs and devices share.
#[derive(Debug)]
struct Shared {
    memory: Memory,
    queue_events: Mutex<Vec<QueueEvent>>,
    /// Process file descriptor of the guest, once it is started.
    pidfd: OnceLock<OwnedFd>,
}

/// Eventfd to which the guest writes to notify a device of a virtqueue.
#[derive(Debug)]
struct QueueEvent {
    /// Number of the file descriptor in the guest's process.
    fd_number: u32,
    event: OwnedFd,
}

impl ProcessEngine {
    /// Creates a VM without vCPUs. `memory` must be a shared file ([`Memory::shared`]).
    ///
    /// # Errors
    ///
    /// See [`ProcessError`].
    pub fn new(memory: Memory) -> Result<Self, ProcessError> {
        if rustix::param::linux_hwcap().1 & HWCAP2_FSGSBASE == 0 {
            return Err(ProcessError::Unsupported(
                "the CPU or the host's kernel does not have FSGSBASE (WRFSBASE and WRGSBASE in user space)",
            ));
        }
        if !tsc::is_constant() {
            return Err(ProcessError::Unsupported("the frequency of the time-stamp counter is not constant"));
        }
        let shared = Shared { memory, queue_events: Mutex::default(), pidfd: OnceLock::new() };
        Ok(Self {
            shared: Arc::new(shared),
            calibration: TscCalibration::start(),
            is_traced: false,
            has_pid_namespace: false,
            mitigations: Mitigations::default(),
        })
    }

    /// Uses a calibration of the time-stamp counter that the caller has already started, so that it ends
    /// sooner.
    #[must_use]
    pub(crate) fn calibrated_by(self, calibration: TscCalibration) -> Self {
        Self { calibration, ..self }
    }

    /// Makes the vCPUs debuggable: each CPU's thread in the guest is traced with ptrace. This costs time,
    /// because each hypercall and each signal stops the thread.
    #[must_use]
    pub fn traced(self) -> Self {
        Self { is_traced: true, ..self }
    }

    /// Gives the guest's process a PID namespace of its own, unless it is [`traced`](Self::traced). The start
    /// of the process then requires `CAP_SYS_ADMIN`.
    #[must_use]
    pub fn with_pid_namespace(self) -> Self {
        Self { has_pid_namespace: true, ..self }
    }

    /// Disables these kinds of speculative execution in the guest's process, where the host permits it.
    #[must_use]
    pub fn with_mitigations(self, mitigations: Mitigations) -> Self {
        Self { mitigations, ..self }
    }

    /// Creates the vCPUs: one object for each CPU if the CPUs are [`traced`](Self::traced), otherwise one
    /// object that handles the hypercalls of all CPUs.
    #[must_use]
    pub fn vcpus(&self, count: u32) -> Vec<Box<dyn Vcpu>> {
        let bootstrap = Bootstrap::new(Arc::clone(&self.shared), count, self.calibration)
            .with_mitigations(self.mitigations);
        if self.is_traced {
            return traced::vcpus(&self.shared, count, bootstrap);
        }
        let bootstrap = if self.has_pid_namespace { bootstrap.with_pid_namespace() } else { bootstrap };
        vec![Box::new(ProcessVcpu::new(bootstrap))]
    }

    /// Tests whether the host can run such a process: starts one with one CPU, and kills it before it would
    /// enter a kernel.
    ///
    /// # Errors
    ///
    /// The reason why the host refuses such a process.
    pub fn self_test(&self) -> Result<(), ProcessError> {
        let memory = &self.shared.memory;
        let config = BootstrapConfig {
            mappings: vec![memory_map::first_page(ADDRESSES.start)],
            cpu_array: ADDRESSES.start,
            cpu_count: 1,
            memory_size: memory.size(),
            windows: [ADDRESSES; 2],
            entry: 0,
            argument: 0,
            is_traced: false,
            has_pid_namespace: self.has_pid_namespace,
            disabled_speculation: speculation::to_disable(self.mitigations, Target::Guest).collect(),
        };
        StartingProcess::start(&config, memory, &[])?.into_guest()?.first_hypercall()?;
        Ok(())
    }
}

impl Engine for ProcessEngine {
    fn irq_line(&self, line: u32) -> Result<Box<dyn Interrupt>, EngineError> {
        Ok(Box::new(IrqLine::new(Arc::clone(&self.shared), line)))
    }

    /// `event` must be nonblocking, so that the guest's write to it never blocks.
    fn register_ioevent(&self, address: u64, queue: u32, event: &EventFd) -> Result<(), EngineError> {
        let line = u32::try_from(address.saturating_sub(HOLE.start) / MmioTransport::SIZE).unwrap_or(LINES);
        if line < LINES && queue < MAX_EVENTFD_QUEUES {
            let event = spawn::into_fd(event.try_clone().map_err(syscall_failed("fcntl"))?);
            let mut events = self.shared.queue_events.lock().unwrap_or_else(PoisonError::into_inner);
            events.push(QueueEvent { fd_number: queue_eventfd(line, queue), event });
        }
        Ok(())
    }

    fn kill(&self) {
        self.shared.kill();
    }
}

impl Shared {
    /// Kills the guest's process, if it is started.
    fn kill(&self) {
        if let Some(pidfd) = self.pidfd.get() {
            // Fails if the process has already exited.
            let _: rustix::io::Result<()> = pidfd_send_signal(pidfd, Signal::KILL);
        }
    }
}
