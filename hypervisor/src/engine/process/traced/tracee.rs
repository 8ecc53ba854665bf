//! A thread in the hands of its tracer.

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::super::lifetime::Ended;
use super::{registers, signals};

/// Something else than a signal or a system call has stopped a thread: its tracer (linux/ptrace.h, `PTRACE_EVENT_STOP`).
const PAUSED: i32 = 128;

/// A thread of another process. All its requests are those of the thread that has seized it.
#[derive(Debug)]
pub(super) struct Tracee {
    pub(super) thread: Pid,
    /// What it wanted not to take before interrupts were held back.
    blocked: Option<u64>,
}

/// How a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Until something stops it.
    Run,
    /// For one instruction, without interrupts.
    Step,
    /// For one instruction, with all that the host does for it.
    PlainStep,
}

/// Why it has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// This thread has got a signal, or somebody else has stopped the other one.
    Paused,
    /// It is about to make a system call that is not allowed.
    Call,
    /// It is about to get a signal.
    Signal(Signal),
    /// Its process has ended, or is about to.
    Ended(Ended),
}

impl Tracee {
    /// Takes a thread in hand: from now on it is stopped, but for [`Self::go_on`]. Its process ends with this thread.
    pub(super) fn seize(thread: Pid) -> nix::Result<Self> {
        let options =
            Options::PTRACE_O_EXITKILL | Options::PTRACE_O_TRACESECCOMP | Options::PTRACE_O_TRACEEXIT;
        ptrace::seize(thread, options)?;
        let mut tracee = Self { thread, blocked: None };
        ptrace::interrupt(thread)?;
        tracee.wait()?;
        Ok(tracee)
    }

    /// Lets it go on, with a signal if it stopped for one.
    pub(super) fn go_on(&mut self, pace: Pace, signal: Option<Signal>) -> nix::Result<()> {
        let thread = self.thread;
        let result = match pace {
            Pace::Run => ptrace::cont(thread, signal),
            Pace::Step => self.prepare_step(signal).and_then(|()| ptrace::step(thread, signal)),
            Pace::PlainStep => ptrace::step(thread, signal),
        };
        unless_gone(result)
    }

    fn prepare_step(&mut self, signal: Option<Signal>) -> nix::Result<()> {
        // The signal is an exception: its handler begins, which notes what was blocked before.
        if signal.is_some() {
            return Ok(());
        }
        registers::end_interrupted_call(self.thread)?;
        let before = signals::blocked(self.thread)?;
        signals::set_blocked(self.thread, before | signals::INTERRUPTS)?;
        self.blocked = Some(before);
        Ok(())
    }

    /// Waits until it stops. A signal of this thread's stops it.
    pub(super) fn wait(&mut self) -> nix::Result<Stop> {
        let stop = loop {
            match waitpid(self.thread, Some(WaitPidFlag::__WALL)) {
                Err(Errno::EINTR) => match ptrace::interrupt(self.thread) {
                    Err(Errno::ESRCH) => break Stop::Ended(Ended::Unknown),
                    result => result?,
                },
                Err(Errno::ECHILD) => break Stop::Ended(Ended::Unknown),
                status => match self.stop(status?)? {
                    Stop::Paused if self.has_trapped()? => unless_gone(ptrace::cont(self.thread, None))?,
                    stop => break stop,
                },
            }
        };
        unless_gone(self.let_interrupts_in())?;
        Ok(stop)
    }

    /// Whether a thread that was stopped from outside has just done its step, or come to a breakpoint. Its next stop tells, and
    /// it is there before it does another instruction: left for later, the trap would be taken for the guest's own.
    fn has_trapped(&self) -> nix::Result<bool> {
        match signals::is_pending(self.thread, Signal::SIGTRAP) {
            Err(Errno::ESRCH) => Ok(false),
            result => result,
        }
    }

    fn stop(&self, status: WaitStatus) -> nix::Result<Stop> {
        Ok(match status {
            WaitStatus::Stopped(_, signal) => Stop::Signal(signal),
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_SECCOMP) => Stop::Call,
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXIT) => {
                let status = i32::try_from(ptrace::getevent(self.thread)?).unwrap_or(0);
                Stop::Ended(WaitStatus::from_raw(self.thread, status).map_or(Ended::Unknown, ended))
            }
            WaitStatus::PtraceEvent(_, _, PAUSED) => Stop::Paused,
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => Stop::Ended(ended(status)),
            _ => Stop::Paused,
        })
    }

    /// Undoes what [`Self::prepare_step`] did to signals.
    fn let_interrupts_in(&mut self) -> nix::Result<()> {
        let Some(before) = self.blocked.take() else { return Ok(()) };
        let now = signals::blocked(self.thread)?;
        signals::set_blocked(self.thread, signals::wanted(before, now))
    }
}

/// Waits for the end of a thread whose process was killed. A first thread ends when no other one is left.
pub(super) fn bury(thread: Pid) {
    loop {
        // It stops once more when it ends, and may have done so already.
        let _: nix::Result<()> = ptrace::cont(thread, None);
        match waitpid(thread, Some(WaitPidFlag::__WALL)) {
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => return,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Whoever is killed meanwhile says so when it is waited for.
fn unless_gone(result: nix::Result<()>) -> nix::Result<()> {
    match result {
        Err(Errno::ESRCH) => Ok(()),
        result => result,
    }
}

fn ended(status: WaitStatus) -> Ended {
    match status {
        WaitStatus::Exited(_, status) => Ended::Status(status),
        WaitStatus::Signaled(_, signal, _) => Ended::Signal(signal as i32),
        _ => Ended::Unknown,
    }
}
