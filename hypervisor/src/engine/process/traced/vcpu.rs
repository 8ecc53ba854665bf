//! A processor that is debugged.

use std::io::Write;
use std::sync::Arc;

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::super::beginning::{self, Beginning};
use super::super::child::Held;
use super::super::lifetime::denied;
use super::super::reply::Reply;
use super::super::request::{Request, describe};
use super::super::{ProcessError, clock, refused};
use super::tracee::{Pace, Stop, Tracee};
use super::{Common, hardware, registers, tables, tracee};
use crate::boot::{Entry, Tsc};
use crate::engine::debug::{DebugControl, DebugEvent, Registers};
use crate::engine::{EngineError, Exit, Vcpu};

/// A processor, which is a thread of the guest's process. Only the thread that has called [`Vcpu::begin`] uses it from then
/// on.
#[derive(Debug)]
pub(super) struct TracedVcpu {
    common: Arc<Common>,
    number: u32,
    /// The first processor begins for all.
    beginning: Option<Beginning>,
    tracee: Option<Tracee>,
    control: DebugControl,
    reply: Reply,
    /// What it gets when it runs on.
    signal: Option<Signal>,
    /// Why it cannot go on.
    failure: String,
}

impl TracedVcpu {
    pub(super) fn new(common: Arc<Common>, number: u32, beginning: Option<Beginning>) -> Self {
        Self {
            common,
            number,
            beginning,
            tracee: None,
            control: DebugControl::default(),
            reply: Reply::default(),
            signal: None,
            failure: String::new(),
        }
    }

    fn tracee(&mut self) -> Result<&mut Tracee, ProcessError> {
        self.tracee.as_mut().ok_or(ProcessError::Lacks("a processor's thread is not in hand"))
    }

    fn thread(&mut self) -> Result<Pid, ProcessError> {
        Ok(self.tracee()?.thread)
    }

    /// What the host calls its thread. Only before the guest runs.
    fn identifier(&self) -> Result<Pid, ProcessError> {
        Ok(Pid::from_raw(beginning::thread(&self.common.shared.memory, self.number)?))
    }

    fn seize(&mut self) -> Result<(), ProcessError> {
        self.tracee = Some(Tracee::seize(self.identifier()?).map_err(refused("ptrace"))?);
        Ok(())
    }

    /// Brings the first processor to the kernel's first instruction.
    fn enter_kernel(&mut self) -> Result<(), ProcessError> {
        let common = Arc::clone(&self.common);
        let (Some(held), Some(entry)) = (common.held.get(), common.entry.get()) else {
            return Err(ProcessError::Lacks("it was not started"));
        };
        (&held.control).write_all(&[0]).map_err(refused("write"))?;
        let tracee = self.tracee()?;
        while registers::place(tracee.thread).map_err(refused("ptrace"))? != entry.instruction {
            tracee.go_on(Pace::PlainStep, None).map_err(refused("ptrace"))?;
            if let Stop::Ended(ended) = tracee.wait().map_err(refused("wait4"))? {
                return Err(ProcessError::Ended(ended.describe()));
            }
        }
        Ok(())
    }

    /// Runs until the next stop that is not the guest's own business.
    fn next_stop(&mut self) -> Result<(Stop, Option<DebugEvent>), ProcessError> {
        loop {
            let pace = if self.control.step { Pace::Step } else { Pace::Run };
            let signal = self.signal.take();
            let tracee = self.tracee()?;
            tracee.go_on(pace, signal).map_err(refused("ptrace"))?;
            let stop = tracee.wait().map_err(refused("wait4"))?;
            let Stop::Signal(signal) = stop else { return Ok((stop, None)) };
            let thread = tracee.thread;
            let event = if signal == Signal::SIGTRAP { self.event(thread)? } else { None };
            if event.is_some() {
                return Ok((stop, event));
            }
            self.signal = Some(signal);
        }
    }

    /// What a trap is to a debugger, if it is not the guest's.
    fn event(&self, thread: Pid) -> Result<Option<DebugEvent>, ProcessError> {
        let trap = || -> nix::Result<_> {
            let code = ptrace::getsiginfo(thread)?.si_code;
            Ok(match code {
                libc::SI_KERNEL if self.control.breakpoints => {
                    Some(DebugEvent::Breakpoint(registers::step_back(thread)?))
                }
                // The last one is for a handler that begins.
                libc::TRAP_BRKPT | libc::TRAP_TRACE | libc::TRAP_HWBKPT | libc::SIGTRAP => {
                    let step = self.control.step && code != libc::TRAP_HWBKPT;
                    let hits = hardware::take_hits(thread)?;
                    (step || hits != 0).then_some(DebugEvent::Trap { step, hits })
                }
                _ => None,
            })
        };
        trap().map_err(refused("ptrace"))
    }

    fn call(&mut self) -> Result<Exit<'_>, ProcessError> {
        let call = registers::call(self.thread()?).map_err(refused("ptrace"))?;
        let Some(request) = Request::new(&call) else {
            // It does not live to see the answer: it stays where it is until it is killed.
            self.failure = denied(&describe(&call));
            return Ok(Exit::Denied);
        };
        Ok(self.reply.find(&request))
    }
}

impl Vcpu for TracedVcpu {
    fn tsc(&self) -> Result<Tsc, EngineError> {
        // The frequency comes later.
        Ok(Tsc { frequency: 0, now: clock::ticks() })
    }

    fn enter(&mut self, entry: &Entry) -> Result<(), EngineError> {
        if let Some(beginning) = &mut self.beginning {
            beginning.entry = *entry;
            // There is only one.
            let _: Result<(), Entry> = self.common.entry.set(*entry);
        }
        Ok(())
    }

    fn confined(&mut self) -> Result<(), EngineError> {
        if let Some(beginning) = &self.beginning {
            let held = beginning.start(Held::start, |held| &held.process)?;
            // There is only one.
            let _: Result<(), Held> = self.common.held.set(held);
            let _: Result<(), Pid> = self.common.first.set(self.identifier()?);
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), EngineError> {
        let seized = self.seize();
        self.common.all_traced.wait();
        seized?;
        if let Some(mut beginning) = self.beginning.take() {
            beginning.finish_clock()?;
            self.enter_kernel()?;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<Exit<'_>, EngineError> {
        if let Some(answer) = self.reply.take() {
            match registers::answer(self.thread()?, answer) {
                // Who is killed meanwhile says so when it is waited for.
                Err(nix::errno::Errno::ESRCH) => {}
                result => result.map_err(refused("ptrace"))?,
            }
        }
        let (stop, event) = self.next_stop()?;
        Ok(match (stop, event) {
            (_, Some(event)) => Exit::Debug(event),
            (Stop::Call, _) => self.call()?,
            (Stop::Ended(ended), _) => {
                let (exit, failure) = ended.exit();
                self.failure = failure;
                exit
            }
            (Stop::Paused | Stop::Signal(_), None) => Exit::Interrupted,
        })
    }

    fn failure(&mut self) -> String {
        std::mem::take(&mut self.failure)
    }

    fn registers(&mut self) -> Result<Registers, EngineError> {
        Ok(registers::read(self.thread()?).map_err(refused("ptrace"))?)
    }

    fn set_registers(&mut self, registers: &Registers) -> Result<(), EngineError> {
        Ok(registers::write(self.thread()?, registers).map_err(refused("ptrace"))?)
    }

    fn translate(&mut self, address: u64) -> Option<u64> {
        let root = self.common.entry.get()?.page_table_root;
        tables::translate(&self.common.shared.memory, root, address)
    }

    fn set_debug(&mut self, control: &DebugControl) -> Result<(), EngineError> {
        let thread = self.thread()?;
        let before = std::mem::replace(&mut self.control, *control);
        if before.hardware != control.hardware {
            hardware::set(thread, control).map_err(refused("ptrace"))?;
        }
        Ok(())
    }

    /// The thread is where it stopped for the signal.
    fn give_back(&mut self, event: DebugEvent) -> Result<(), EngineError> {
        if let DebugEvent::Breakpoint(_) = event {
            registers::step_forth(self.thread()?).map_err(refused("ptrace"))?;
        }
        self.signal = Some(Signal::SIGTRAP);
        Ok(())
    }
}

impl Drop for TracedVcpu {
    /// Nobody else can wait for a thread that is traced. The first thread of a process ends last: that waits for all others.
    fn drop(&mut self) {
        if let Some(tracee) = self.tracee.take() {
            self.common.kill();
            if self.number != 0 {
                tracee::bury(tracee.thread);
            }
        }
    }
}
