//! Traced vCPU.
//!
//! Each vCPU thread of the hypervisor seizes one thread of the guest's process, and then is its only tracer.
//! The vCPU thread of the boot CPU also starts the process, and single-steps it through the rest of its
//! bootstrap to the kernel's first instruction. After that, [`Vcpu::run`] resumes the tracee until it stops
//! for the hypervisor or the debugger. If it stops for a signal of the guest itself, [`Vcpu::run`] delivers
//! the signal and resumes the tracee.

use std::sync::Arc;

use libc::seccomp_data;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::super::bootstrap::{self, Bootstrap};
use super::super::error::{ProcessError, syscall_failed};
use super::super::guest_process::PausedProcess;
use super::super::hypercall::Hypercall;
use super::super::hypercall_reply::HypercallReply;
use super::super::owned_process::ExitStatus;
use super::tracee::{ResumeMode, TraceStop, Tracee};
use super::{TracedVm, debug_registers, page_tables, registers, tracee};
use crate::devices::tsc;
use crate::engine::debug::{DebugControl, DebugEvent, Registers};
use crate::engine::{EngineError, ProcessStart, Vcpu, VcpuExit};
use crate::image::boot::{KernelEntry, Tsc};

/// vCPU that is a traced thread of the guest's process.
#[derive(Debug)]
pub(super) struct TracedVcpu {
    vm: Arc<TracedVm>,
    id: u32,
    /// Bootstrap of the process. Only the boot CPU has it.
    bootstrap: Option<Bootstrap>,
    tracee: Option<Tracee>,
    control: DebugControl,
    reply: HypercallReply,
    /// Signal to deliver when the tracee is resumed.
    signal: Option<Signal>,
    /// How the tracee has exited, if it did so while it was paused. The next [`Vcpu::run`] reports it.
    exited: Option<ExitStatus>,
    /// Reason of the last [`VcpuExit::Failed`] or [`VcpuExit::Denied`].
    failure: String,
}

/// Stop of the tracee that the hypervisor or the debugger must handle.
#[derive(Clone, Copy, Debug)]
enum VcpuStop {
    /// The tracer has interrupted the tracee.
    Interrupted,
    /// The tracee makes this hypercall.
    Hypercall(seccomp_data),
    /// The tracee has reached an event that the debugger has asked for.
    Debug(DebugEvent),
    /// The tracee has exited or is about to exit.
    Exited(ExitStatus),
}

/// Converts the result of a ptrace request to a stopped tracee. Returns `None` if the tracee was killed
/// meanwhile; the next [`Tracee::wait`] reports its end.
fn unless_killed<T>(result: nix::Result<T>) -> Result<Option<T>, ProcessError> {
    match result {
        Err(Errno::ESRCH) => Ok(None),
        result => result.map(Some).map_err(syscall_failed("ptrace")),
    }
}

impl TracedVcpu {
    pub(super) fn new(vm: Arc<TracedVm>, id: u32, bootstrap: Option<Bootstrap>) -> Self {
        Self {
            vm,
            id,
            bootstrap,
            tracee: None,
            control: DebugControl::default(),
            reply: HypercallReply::default(),
            signal: None,
            exited: None,
            failure: String::new(),
        }
    }

    fn tracee(&mut self) -> Result<&mut Tracee, ProcessError> {
        self.tracee.as_mut().ok_or(ProcessError::Unsupported("the thread of a CPU is not traced"))
    }

    fn thread(&mut self) -> Result<Pid, ProcessError> {
        Ok(self.tracee()?.thread)
    }

    /// Reads the thread ID of the CPU. It can be trusted only before the guest runs, because the guest can
    /// overwrite it.
    fn thread_id(&self) -> Result<Pid, ProcessError> {
        Ok(Pid::from_raw(bootstrap::thread_id(&self.vm.shared.memory, self.id)?))
    }

    fn seize(&mut self) -> Result<(), ProcessError> {
        let tracee = self.tracee.insert(Tracee::new(self.thread_id()?));
        let exited = match tracee.seize() {
            Ok(TraceStop::Exited(status)) => status,
            Ok(_) => return Ok(()),
            // A thread that is already killed cannot be seized either; its exit status is reported then.
            Err(error) => match tracee.poll_exit() {
                Some(status) if error == Errno::ESRCH || status != ExitStatus::Unknown => status,
                _ => return Err(syscall_failed("ptrace")(error)),
            },
        };
        Err(ProcessError::Exited(exited.describe()))
    }

    /// Steps the boot CPU through the rest of the bootstrap to the kernel's first instruction.
    fn enter_kernel(&mut self) -> Result<(), ProcessError> {
        let vm = Arc::clone(&self.vm);
        let (Some(paused), Some(entry)) = (vm.paused.get(), vm.entry.get()) else {
            return Err(ProcessError::Unsupported("it was not started"));
        };
        paused.resume()?;
        let tracee = self.tracee()?;
        while unless_killed(registers::rip(tracee.thread))? != Some(entry.rip) {
            tracee.resume(ResumeMode::StepWithSignals, None).map_err(syscall_failed("ptrace"))?;
            if let TraceStop::Exited(status) = tracee.wait().map_err(syscall_failed("wait4"))? {
                return Err(ProcessError::Exited(status.describe()));
            }
        }
        Ok(())
    }

    /// Resumes the tracee, and waits for its next stop. Returns `None` if the hypervisor need not handle the
    /// stop. Then the stop was for a signal, which the next call delivers, or the tracee was killed, which
    /// the next call reports.
    fn next_stop(&mut self) -> Result<Option<VcpuStop>, ProcessError> {
        let mode = if self.control.step { ResumeMode::Step } else { ResumeMode::Continue };
        let signal = self.signal.take();
        let tracee = self.tracee()?;
        tracee.resume(mode, signal).map_err(syscall_failed("ptrace"))?;
        let stop = tracee.wait().map_err(syscall_failed("wait4"))?;
        let thread = tracee.thread;
        Ok(match stop {
            TraceStop::Interrupted => Some(VcpuStop::Interrupted),
            TraceStop::Exited(status) => Some(VcpuStop::Exited(status)),
            TraceStop::Hypercall => unless_killed(registers::system_call(thread))?.map(VcpuStop::Hypercall),
            TraceStop::Signal(signal) => {
                let event = if signal == Signal::SIGTRAP { self.debug_event(thread)? } else { None };
                self.signal = event.is_none().then_some(signal);
                event.map(VcpuStop::Debug)
            }
        })
    }

    /// Decodes a SIGTRAP into a debug event. Returns `None` if the SIGTRAP is not the debugger's: the guest
    /// gets it.
    fn debug_event(&self, thread: Pid) -> Result<Option<DebugEvent>, ProcessError> {
        let decode = || -> nix::Result<_> {
            let code = ptrace::getsiginfo(thread)?.si_code;
            Ok(match code {
                libc::SI_KERNEL if self.control.breakpoints => {
                    Some(DebugEvent::Breakpoint(registers::rewind_breakpoint(thread)?))
                }
                // The code SIGTRAP means that the step has entered a signal handler.
                libc::TRAP_BRKPT | libc::TRAP_TRACE | libc::TRAP_HWBKPT | libc::SIGTRAP => {
                    let step = self.control.step && code != libc::TRAP_HWBKPT;
                    let hits = debug_registers::take_hits(thread)?;
                    (step || hits != 0).then_some(DebugEvent::Trap { step, hits })
                }
                _ => None,
            })
        };
        unless_killed(decode()).map(Option::flatten)
    }

    fn exited(&mut self, status: ExitStatus) -> VcpuExit<'_> {
        let (exit, failure) = status.vcpu_exit();
        self.failure = failure;
        exit
    }
}

impl Vcpu for TracedVcpu {
    fn tsc(&self) -> Result<Tsc, EngineError> {
        // The frequency is written later, by `Bootstrap::finish_calibration`.
        Ok(Tsc { frequency_hz: 0, value: tsc::ticks() })
    }

    fn set_entry(&mut self, entry: &KernelEntry) -> Result<(), EngineError> {
        if let Some(bootstrap) = &mut self.bootstrap {
            bootstrap.entry = *entry;
            // Cannot fail: only the boot CPU has a bootstrap, so this sets the entry for the first time.
            let _: Result<(), KernelEntry> = self.vm.entry.set(*entry);
        }
        Ok(())
    }

    fn start_processes(&mut self) -> Result<Option<ProcessStart>, EngineError> {
        if let Some(bootstrap) = &self.bootstrap {
            let paused = bootstrap.start()?.into_paused()?;
            // Cannot fail: only the boot CPU has a bootstrap, so this sets both for the first time.
            let _: Result<(), PausedProcess> = self.vm.paused.set(paused);
            let _: Result<(), Pid> = self.vm.first_thread.set(self.thread_id()?);
        }
        Ok(None)
    }

    fn bind_to_thread(&mut self) -> Result<(), EngineError> {
        let seized = self.seize();
        self.vm.all_seized.wait();
        seized?;
        if let Some(mut bootstrap) = self.bootstrap.take() {
            bootstrap.finish_calibration()?;
            self.enter_kernel()?;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<VcpuExit<'_>, EngineError> {
        if let Some(status) = self.exited.take() {
            return Ok(self.exited(status));
        }
        if let Some(response) = self.reply.take() {
            let _: Option<()> = unless_killed(registers::respond(self.thread()?, response))?;
        }
        let stop = loop {
            if let Some(stop) = self.next_stop()? {
                break stop;
            }
        };
        Ok(match stop {
            VcpuStop::Interrupted => VcpuExit::Interrupted,
            VcpuStop::Hypercall(call) => self.reply.begin(&Hypercall::decode(&call)),
            VcpuStop::Debug(event) => VcpuExit::Debug(event),
            VcpuStop::Exited(status) => self.exited(status),
        })
    }

    fn has_ended(&mut self) -> bool {
        self.exited = self.exited.or_else(|| self.tracee.as_mut()?.poll_exit());
        self.exited.is_some()
    }

    fn failure(&mut self) -> String {
        std::mem::take(&mut self.failure)
    }

    fn registers(&mut self) -> Result<Registers, EngineError> {
        Ok(registers::read(self.thread()?).map_err(syscall_failed("ptrace"))?)
    }

    fn set_registers(&mut self, registers: &Registers) -> Result<(), EngineError> {
        Ok(registers::write(self.thread()?, registers).map_err(syscall_failed("ptrace"))?)
    }

    fn translate(&mut self, address: u64) -> Option<u64> {
        let root = self.vm.entry.get()?.page_table_root;
        page_tables::translate(&self.vm.shared.memory, root, address)
    }

    fn set_debug(&mut self, control: &DebugControl) -> Result<(), EngineError> {
        let thread = self.thread()?;
        let before = std::mem::replace(&mut self.control, *control);
        if before.hardware != control.hardware {
            let _: Option<()> = unless_killed(debug_registers::set(thread, control))?;
        }
        Ok(())
    }

    /// The tracee is still stopped for the event's SIGTRAP. This only records the signal, and the next resume
    /// delivers it.
    fn inject_exception(&mut self, event: DebugEvent) -> Result<(), EngineError> {
        if let DebugEvent::Breakpoint(_) = event {
            registers::skip_breakpoint(self.thread()?).map_err(syscall_failed("ptrace"))?;
        }
        self.signal = Some(Signal::SIGTRAP);
        Ok(())
    }
}

impl Drop for TracedVcpu {
    /// Kills the process, and reaps the thread, which only its tracer can do. The first thread ends last, so
    /// [`TracedVm`] reaps it.
    fn drop(&mut self) {
        if let Some(tracee) = self.tracee.take() {
            self.vm.kill();
            if self.id != 0 {
                tracee::reap(tracee.thread);
            }
        }
    }
}
