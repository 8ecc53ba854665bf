//! Traced thread: its stops, and how it is resumed.
//!
//! A tracer resumes its tracee with ptrace(2), and then waitpid(2) reports the next stop and its reason.
//! [`Tracee`] converts these reports into a [`TraceStop`]. There are two difficulties. SIGKILL can end any
//! stop at any time, so each request may fail with `ESRCH`. And the guest's timer and interrupt signals must
//! not interrupt a single step, so they are blocked during the step.

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::super::owned_process::ExitStatus;
use super::{registers, requests, signals};

/// PTRACE_EVENT_STOP (linux/ptrace.h): the tracer has interrupted the thread.
const EVENT_STOP: i32 = 128;

/// Thread of another process that the calling thread traces. Only the thread that has seized it may use it.
#[derive(Debug)]
pub(super) struct Tracee {
    pub(super) thread: Pid,
    /// During a step: the signal mask from before the tracer blocked interrupts.
    mask_before_step: Option<u64>,
}

/// How a tracee is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResumeMode {
    /// Run to the next stop.
    Continue,
    /// Execute one instruction with interrupts blocked.
    Step,
    /// Execute one instruction, or enter a signal handler. Interrupts are not blocked.
    StepWithSignals,
}

/// Why a tracee has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceStop {
    /// The tracer received a signal and therefore interrupted the tracee, or another process stopped the
    /// tracee.
    Interrupted,
    /// The tracee is about to make a hypercall.
    Hypercall,
    /// A signal is about to be delivered to the tracee.
    Signal(Signal),
    /// The tracee has exited or is about to exit.
    Exited(ExitStatus),
}

/// Reaction to the exit of a tracee whose exit status is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnExit {
    /// Wait for the report of its end. The report has the status, unless another thread has reaped the
    /// tracee.
    AwaitStatus,
    /// Return without the status.
    Return,
}

impl Tracee {
    /// Creates the [`Tracee`] of a thread that is not seized yet.
    pub(super) const fn new(thread: Pid) -> Self {
        Self { thread, mask_before_step: None }
    }

    /// Seizes the thread and stops it, unless it exits meanwhile. From now on, the kernel kills the tracee's
    /// process when the calling thread exits.
    pub(super) fn seize(&mut self) -> nix::Result<TraceStop> {
        let options =
            Options::PTRACE_O_EXITKILL | Options::PTRACE_O_TRACESECCOMP | Options::PTRACE_O_TRACEEXIT;
        ptrace::seize(self.thread, options)?;
        ptrace::interrupt(self.thread)?;
        // The other tracers wait for this one at a barrier, so this call must not wait for the exit status.
        // If the tracee is the process's first thread, the kernel reports its end only after the other
        // tracers have reaped theirs, which would deadlock.
        self.next_stop(OnExit::Return)
    }

    /// Resumes the tracee, and delivers `signal` to it. Only a tracee that has stopped for a signal may get
    /// one.
    pub(super) fn resume(&mut self, mode: ResumeMode, signal: Option<Signal>) -> nix::Result<()> {
        let thread = self.thread;
        let result = match mode {
            ResumeMode::Continue => ptrace::cont(thread, signal),
            ResumeMode::Step => self.prepare_step(signal).and_then(|()| ptrace::step(thread, signal)),
            ResumeMode::StepWithSignals => ptrace::step(thread, signal),
        };
        ignore_exited(result)
    }

    /// Blocks interrupts for a step.
    fn prepare_step(&mut self, signal: Option<Signal>) -> nix::Result<()> {
        // This step enters a signal handler. Its signal frame must hold the original mask, so interrupts stay
        // unblocked.
        if signal.is_some() {
            return Ok(());
        }
        registers::end_interrupted_call(self.thread)?;
        let before = requests::mask(self.thread)?;
        requests::set_mask(self.thread, before | signals::INTERRUPTS)?;
        self.mask_before_step = Some(before);
        Ok(())
    }

    /// Waits until the tracee stops. A signal to the calling thread interrupts the tracee.
    pub(super) fn wait(&mut self) -> nix::Result<TraceStop> {
        self.next_stop(OnExit::AwaitStatus)
    }

    fn next_stop(&mut self, on_exit: OnExit) -> nix::Result<TraceStop> {
        let stop = loop {
            match waitpid(self.thread, Some(WaitPidFlag::__WALL)) {
                Err(Errno::EINTR) => match ptrace::interrupt(self.thread) {
                    // The tracee is exiting (EIO), or has exited.
                    Err(Errno::ESRCH | Errno::EIO) if on_exit == OnExit::AwaitStatus => {}
                    Err(Errno::ESRCH | Errno::EIO) => break TraceStop::Exited(ExitStatus::Unknown),
                    result => result?,
                },
                Err(Errno::ECHILD) => break TraceStop::Exited(ExitStatus::Unknown),
                status => match self.decode(status?) {
                    TraceStop::Interrupted if self.has_trapped()? => {
                        ignore_exited(ptrace::cont(self.thread, None))?;
                    }
                    // Another SIGKILL has ended the stop at exit (PTRACE_EVENT_EXIT), so the status is still
                    // unknown.
                    TraceStop::Exited(ExitStatus::Unknown) if on_exit == OnExit::AwaitStatus => {
                        ignore_exited(ptrace::cont(self.thread, None))?;
                    }
                    stop => break stop,
                },
            }
        };
        ignore_exited(self.unblock_interrupts())?;
        Ok(stop)
    }

    /// Returns the exit status of a stopped tracee if it was killed, otherwise `None`. Does not block.
    ///
    /// When a process is killed, each of its threads stops once more for its tracer. The first thread is
    /// reported as exited only after all others are reaped. So all tracers must call this function, even
    /// while they keep their tracees stopped. Otherwise [`Self::resume`] of the first thread may end its last
    /// stop without a report, and [`Self::wait`] blocks.
    pub(super) fn poll_exit(&self) -> Option<ExitStatus> {
        match waitpid(self.thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
            Ok(status) => match self.decode(status) {
                // The status is not known yet; a later report has it.
                TraceStop::Exited(ExitStatus::Unknown) => None,
                TraceStop::Exited(status) => Some(status),
                _ => None,
            },
            // The tracee was already reaped.
            Err(_) => Some(ExitStatus::Unknown),
        }
    }

    /// Returns true if an interrupted tracee has a pending trap, because it has completed its step or reached
    /// a breakpoint. The caller then continues the tracee, which stops for the trap before it executes an
    /// instruction. A trap that stays pending would later be mistaken for a trap of the guest.
    fn has_trapped(&self) -> nix::Result<bool> {
        match signals::is_pending(self.thread, Signal::SIGTRAP) {
            Err(Errno::ESRCH) => Ok(false),
            result => result,
        }
    }

    fn decode(&self, status: WaitStatus) -> TraceStop {
        match status {
            WaitStatus::Stopped(_, signal) => TraceStop::Signal(signal),
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_SECCOMP) => TraceStop::Hypercall,
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXIT) => {
                // Fails if another SIGKILL has ended this stop, too.
                let status = ptrace::getevent(self.thread).ok().and_then(|status| i32::try_from(status).ok());
                let status = status.and_then(|status| WaitStatus::from_raw(self.thread, status).ok());
                TraceStop::Exited(status.map_or(ExitStatus::Unknown, exit_status))
            }
            WaitStatus::PtraceEvent(_, _, EVENT_STOP) => TraceStop::Interrupted,
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => TraceStop::Exited(exit_status(status)),
            _ => TraceStop::Interrupted,
        }
    }

    /// Undoes [`Self::prepare_step`].
    fn unblock_interrupts(&mut self) -> nix::Result<()> {
        let Some(before) = self.mask_before_step.take() else { return Ok(()) };
        let now = requests::mask(self.thread)?;
        requests::set_mask(self.thread, signals::mask_after_step(before, now))
    }
}

/// Waits for the end of a thread whose process was killed, and reaps it. The first thread of a process ends
/// last.
pub(super) fn reap(thread: Pid) {
    loop {
        // A traced thread stops once more when it exits (PTRACE_EVENT_EXIT). It may be in this stop already,
        // so it is resumed before each wait.
        let _: nix::Result<()> = ptrace::cont(thread, None);
        match waitpid(thread, Some(WaitPidFlag::__WALL)) {
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => return,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Ignores the error if the tracee was killed meanwhile: [`Tracee::wait`] reports its end.
fn ignore_exited(result: nix::Result<()>) -> nix::Result<()> {
    match result {
        Err(Errno::ESRCH) => Ok(()),
        result => result,
    }
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    match status {
        WaitStatus::Exited(_, code) => ExitStatus::Code(code),
        WaitStatus::Signaled(_, signal, _) => ExitStatus::Signal(signal as i32),
        _ => ExitStatus::Unknown,
    }
}
