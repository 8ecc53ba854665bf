//! vCPU of the process engine. One [`ProcessVcpu`] stands for all CPUs of the VM. The CPUs are threads of the
//! guest's process and run by themselves; the [`ProcessVcpu`] handles their hypercalls one after the other.

use std::sync::mpsc::{self, Receiver, SendError};

use super::bootstrap::Bootstrap;
use super::error::{ProcessError, syscall_failed};
use super::guest_process::{GuestEvent, GuestProcess};
use super::hypercall::Hypercall;
use super::hypercall_reply::HypercallReply;
use super::owned_process::ExitStatus;
use super::seccomp_notify::CallResponse;
use crate::devices::tsc;
use crate::engine::{EngineError, ProcessStart, Vcpu, VcpuExit};
use crate::image::boot::{KernelEntry, Tsc};

/// Handler of the hypercalls of a guest's process.
#[derive(Debug)]
pub(super) struct ProcessVcpu {
    bootstrap: Bootstrap,
    /// Channel that delivers the process once it has set itself up.
    started: Option<Receiver<GuestProcess>>,
    guest: Option<GuestProcess>,
    /// ID of the reported system call that waits for the hypervisor's response.
    pending_call: u64,
    reply: HypercallReply,
    /// Reason of the last [`VcpuExit::Failed`] or [`VcpuExit::Denied`].
    failure: String,
}

impl ProcessVcpu {
    pub(super) fn new(bootstrap: Bootstrap) -> Self {
        Self {
            bootstrap,
            started: None,
            guest: None,
            pending_call: 0,
            reply: HypercallReply::default(),
            failure: String::new(),
        }
    }

    /// Takes over the process when its bootstrap has ended. Later calls have no effect.
    fn take_started(&mut self) -> Result<(), ProcessError> {
        let Some(started) = self.started.take() else { return Ok(()) };
        let guest = started.recv().map_err(|_| ProcessError::Unsupported("it was not started"))?;
        let guest = self.guest.insert(guest);
        self.pending_call = guest.first_hypercall()?;
        // The response to the first hypercall lets the process enter its kernel.
        self.reply = HypercallReply::ready(CallResponse::Value(0));
        Ok(())
    }

    /// Completes the pending system call, if there is one.
    fn respond(&mut self) -> Result<(), ProcessError> {
        let (Some(guest), Some(response)) = (&self.guest, self.reply.take()) else { return Ok(()) };
        guest.respond(self.pending_call, response).map_err(syscall_failed("ioctl"))
    }

    fn exited(&mut self, status: ExitStatus) -> VcpuExit<'_> {
        let (exit, failure) = status.vcpu_exit();
        self.failure = failure;
        exit
    }
}

impl Vcpu for ProcessVcpu {
    fn tsc(&self) -> Result<Tsc, EngineError> {
        // The frequency is written later, by `Bootstrap::finish_calibration`.
        Ok(Tsc { frequency_hz: 0, value: tsc::ticks() })
    }

    fn set_entry(&mut self, entry: &KernelEntry) -> Result<(), EngineError> {
        self.bootstrap.entry = *entry;
        Ok(())
    }

    fn start_processes(&mut self) -> Result<Option<ProcessStart>, EngineError> {
        let process = self.bootstrap.start()?;
        let (sender, receiver) = mpsc::channel();
        self.started = Some(receiver);
        let finish = move || {
            // Fails if the vCPU has been dropped: then the process is killed.
            let _: Result<(), SendError<_>> = sender.send(process.into_guest()?);
            Ok(())
        };
        Ok(Some(Box::new(finish)))
    }

    fn run(&mut self) -> Result<VcpuExit<'_>, EngineError> {
        self.take_started()?;
        self.bootstrap.finish_calibration()?;
        self.respond()?;
        let guest = self.guest.as_mut().ok_or(ProcessError::Unsupported("it has ended"))?;
        Ok(match guest.wait().map_err(syscall_failed("poll"))? {
            GuestEvent::Interrupted => VcpuExit::Interrupted,
            GuestEvent::Call(call) => {
                self.pending_call = call.id;
                self.reply.begin(&Hypercall::decode(&call.data))
            }
            GuestEvent::Exited(status) => self.exited(status),
        })
    }

    fn failure(&mut self) -> String {
        std::mem::take(&mut self.failure)
    }
}
