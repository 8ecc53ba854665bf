//! What runs a machine's processors.
//!
//! Everything else of the hypervisor is the same whatever does.

pub mod debug;
pub mod kvm;
pub mod process;

use std::fmt::Debug;
use std::io;

use vmm_sys_util::eventfd::EventFd;

use self::debug::{DebugControl, DebugEvent, Registers};
use crate::boot::{Entry, Tsc};
use crate::devices::virtio::Interrupt;

/// Why processors cannot run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The host has none.
    #[error("there is no /dev/kvm: this host, or the container, offers no virtualisation hardware")]
    Missing,
    /// The user may not use it.
    #[error(
        "no permission for /dev/kvm: join the group that owns it (`sudo usermod -aG kvm $USER`, then log in again)"
    )]
    Forbidden,
    /// It runs no code at full speed.
    #[error("KVM on this host merely emulates the processor ({0}); --engine kvm uses it all the same")]
    Emulated(String),
    /// It lacks something.
    #[error("KVM on this host has no {0}")]
    Lacks(&'static str),
    /// Another request failed.
    #[error("KVM cannot {what}: {source}")]
    Request {
        /// What was asked for.
        what: &'static str,
        /// What the host says.
        source: io::Error,
    },
    /// The guest's process cannot be made.
    #[error(transparent)]
    Process(#[from] process::ProcessError),
    /// The engine has no debugger.
    #[error("this engine's processors cannot be debugged")]
    NoDebugger,
}

/// What runs the processors of one machine.
pub trait Engine: Debug {
    /// Makes all processors, the first one in front. It may be that one stands for all.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn vcpus(&self, count: u32) -> Result<Vec<Box<dyn Vcpu>>, EngineError>;

    /// What raises an interrupt line of the machine.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn interrupt(&self, line: u32) -> Result<Box<dyn Interrupt>, EngineError>;

    /// From now on `kick` is told when the guest writes the number `queue` to an address.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn notify(&self, address: u64, queue: u32, kick: &EventFd) -> Result<(), EngineError>;
}

/// A processor. What only a debugger needs an engine may leave out.
pub trait Vcpu: Debug + Send {
    /// Finds out whether the processor runs code at full speed. Only before anything is in the machine's memory.
    ///
    /// # Errors
    ///
    /// [`EngineError::Emulated`] if it does not.
    fn self_test(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// The time-stamp counter as the guest sees it.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn tsc(&self) -> Result<Tsc, EngineError>;

    /// Has the processor enter the kernel when it runs. The others are started by the kernel.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn enter(&mut self, entry: &Entry) -> Result<(), EngineError>;

    /// This process is confined, and the calling thread has no role yet: what is to inherit that can be started.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn confined(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// The calling thread will run the processor, and makes all other requests from now on.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn begin(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Runs until the guest needs something or a signal arrives.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn run(&mut self) -> Result<Exit<'_>, EngineError>;

    /// Where and why the processor could not go on after [`Exit::Failed`].
    fn failure(&mut self) -> String;

    /// What [`Exit::Failed`] is if it is a breakpoint instruction that the engine cannot run, and breakpoints are to
    /// stop the processor.
    fn failed_at_breakpoint(&mut self) -> Option<DebugEvent> {
        None
    }

    /// The registers of a processor that does not run.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn registers(&mut self) -> Result<Registers, EngineError> {
        Err(EngineError::NoDebugger)
    }

    /// Sets all registers but the selectors of segments.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn set_registers(&mut self, _registers: &Registers) -> Result<(), EngineError> {
        Err(EngineError::NoDebugger)
    }

    /// The physical address behind a virtual one, whatever access the guest has to it; none if there is none.
    fn translate(&mut self, _address: u64) -> Option<u64> {
        None
    }

    /// From now on the processor stops at these things.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn set_debug(&mut self, _control: &DebugControl) -> Result<(), EngineError> {
        Err(EngineError::NoDebugger)
    }

    /// Has the guest get the exception that was an [`Exit::Debug`]: it is of its own making.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    fn give_back(&mut self, _event: DebugEvent) -> Result<(), EngineError> {
        Err(EngineError::NoDebugger)
    }
}

/// Why a processor stopped running.
#[derive(Debug)]
pub enum Exit<'a> {
    /// It read from a port; the answer goes into the bytes.
    PortRead(u16, &'a mut [u8]),
    /// It wrote to a port: one value, or several of a string.
    PortWrite(u16, &'a [u8]),
    /// It read from an address without memory; the answer goes into the bytes.
    Read(u64, &'a mut [u8]),
    /// It wrote to an address without memory.
    Write(u64, &'a [u8]),
    /// A signal arrived. What the guest did before is complete, so that a debugger may look.
    Interrupted,
    /// It came to something at which it is to stop ([`Vcpu::set_debug`]).
    Debug(DebugEvent),
    /// It reset itself: a fault that it could not handle.
    Reset,
    /// It cannot go on; see [`Vcpu::failure`].
    Failed,
    /// The guest tried to leave its sandbox; see [`Vcpu::failure`].
    Denied,
}
