//! Engines, which run the vCPUs of a VM.
//!
//! There are two engines. [`kvm`] uses the virtualisation hardware. [`process`] is for hosts without it: the
//! guest is a process of the host whose system calls are filtered. Both implement the traits [`Engine`] and
//! [`Vcpu`], and each has its own error type. The rest of the hypervisor does not depend on the engine. A
//! vCPU thread calls [`Vcpu::run`] in a loop. Each call runs the guest until the guest needs the hypervisor,
//! and returns the reason as a [`VcpuExit`].

pub mod debug;
pub mod kvm;
pub mod process;
pub mod selection;

use std::error::Error;
use std::fmt::Debug;

use vmm_sys_util::eventfd::EventFd;

use self::debug::{DebugControl, DebugEvent, Registers};
use crate::devices::virtio::Interrupt;
use crate::image::boot::{KernelEntry, Tsc};

/// Why an engine cannot run vCPUs.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Error of the engine itself.
    #[error(transparent)]
    Backend(Box<dyn Error + Send + Sync>),
    /// The VM has no vCPU.
    #[error("the machine has no CPUs")]
    NoVcpu,
    /// The engine's vCPUs cannot be debugged.
    #[error("the CPUs of this engine cannot be debugged")]
    DebugUnsupported,
}

/// Engine of one VM, as devices see it. The functions that create vCPUs are not in the trait, because they
/// differ ([`kvm::KvmEngine::vcpus`], [`process::ProcessEngine::vcpus`]).
pub trait Engine: Debug {
    /// Returns the object by which a device raises interrupt line `line`.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn irq_line(&self, line: u32) -> Result<Box<dyn Interrupt>, EngineError>;

    /// Signals `event` whenever the guest writes the value `queue` to the register at `address`.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn register_ioevent(&self, address: u64, queue: u32, event: &EventFd) -> Result<(), EngineError>;

    /// Kills the guest's process, if the engine has one. Its end must not depend on the vCPU threads, because
    /// the host may block them. The guest of another engine stops together with its vCPU threads.
    fn kill(&self) {}
}

/// A vCPU. The methods that only a debugger calls have defaults for engines without debugging.
pub trait Vcpu: Debug + Send {
    /// Returns the guest's time-stamp counter.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn tsc(&self) -> Result<Tsc, EngineError>;

    /// Sets the initial state of the boot CPU. The kernel starts the other CPUs.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn set_entry(&mut self, entry: &KernelEntry) -> Result<(), EngineError>;

    /// Starts the processes that the engine needs. The hypervisor calls this function after it has confined
    /// its own process, so that the new processes inherit the confinement, but before the calling thread has
    /// a seccomp filter, which would deny it. While the processes set themselves up, the hypervisor starts
    /// its threads. Then it calls the returned function, which waits for the processes.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn start_processes(&mut self) -> Result<Option<ProcessStart>, EngineError> {
        Ok(None)
    }

    /// Binds the vCPU to the calling thread, which makes all later calls.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn bind_to_thread(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Runs the guest until it exits to the hypervisor or the thread receives a signal.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn run(&mut self) -> Result<VcpuExit<'_>, EngineError>;

    /// Returns true if the guest took a bus lock just before an exit that had another reason than
    /// [`VcpuExit::BusLock`].
    fn has_bus_lock(&mut self) -> bool {
        false
    }

    /// Returns true if a paused vCPU has ended because its process was killed from outside. The next
    /// [`Self::run`] reports how it ended.
    fn has_ended(&mut self) -> bool {
        false
    }

    /// Describes where and why the vCPU stopped. Only valid after [`VcpuExit::Failed`] or
    /// [`VcpuExit::Denied`].
    fn failure(&mut self) -> String;

    /// Some engines cannot execute breakpoint instructions, and exit with [`VcpuExit::Failed`] instead. If
    /// the last exit was such a failure, and [`DebugControl::breakpoints`] is set, returns the debug event in
    /// its place.
    fn failed_at_breakpoint(&mut self) -> Option<DebugEvent> {
        None
    }

    /// Reads the registers of a paused vCPU.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn registers(&mut self) -> Result<Registers, EngineError> {
        Err(EngineError::DebugUnsupported)
    }

    /// Writes the registers of a paused vCPU, except the segment selectors.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn set_registers(&mut self, _registers: &Registers) -> Result<(), EngineError> {
        Err(EngineError::DebugUnsupported)
    }

    /// Translates a guest virtual address into a guest physical address with the guest's page tables,
    /// regardless of access rights. Returns `None` for an address that is not mapped.
    fn translate(&mut self, _address: u64) -> Option<u64> {
        None
    }

    /// Sets the events at which the vCPU stops.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn set_debug(&mut self, _control: &DebugControl) -> Result<(), EngineError> {
        Err(EngineError::DebugUnsupported)
    }

    /// Injects the exception of a [`VcpuExit::Debug`] into the guest. The caller has found that the guest has
    /// caused it, not the debugger.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn inject_exception(&mut self, _event: DebugEvent) -> Result<(), EngineError> {
        Err(EngineError::DebugUnsupported)
    }
}

/// Function that waits until processes that are starting have set themselves up.
pub type ProcessStart = Box<dyn FnOnce() -> Result<(), EngineError>>;

/// Why [`Vcpu::run`] returned.
#[derive(Debug)]
pub enum VcpuExit<'a> {
    /// The guest read from a port; the hypervisor fills in the bytes.
    PioRead(u16, &'a mut [u8]),
    /// The guest wrote to a port: one value, or several (`outs`).
    PioWrite(u16, &'a [u8]),
    /// The guest offered bytes to a port. If the hypervisor can take all of them without blocking, it takes
    /// them and sets `is_taken`.
    PioTryWrite {
        /// The port.
        port: u16,
        /// The bytes.
        bytes: &'a [u8],
        /// True if the hypervisor has taken the bytes.
        is_taken: &'a mut bool,
    },
    /// The guest read from an address without memory; the hypervisor fills in the bytes.
    MmioRead(u64, &'a mut [u8]),
    /// The guest wrote to an address without memory.
    MmioWrite(u64, &'a [u8]),
    /// The thread received a signal. The guest's last I/O access is complete, so a debugger may read the
    /// registers.
    Interrupted,
    /// The vCPU stopped at an event of [`Vcpu::set_debug`].
    Debug(DebugEvent),
    /// The guest has locked the host's memory bus: with an atomic access that crosses a cache line, or to
    /// uncached memory.
    BusLock,
    /// The guest reset the CPU: a triple fault.
    Reset,
    /// The vCPU cannot continue; [`Vcpu::failure`] describes why.
    Failed,
    /// The guest tried to leave its sandbox; [`Vcpu::failure`] describes how.
    Denied,
}
