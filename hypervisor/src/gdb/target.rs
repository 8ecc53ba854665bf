//! The guest as the crate `gdbstub` wants to see it.

use std::num::NonZeroUsize;

use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint,
    SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::section_offsets::{Offsets, SectionOffsets, SectionOffsetsOps};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};

use super::guest::{Guest, Stop};
use super::registers::{PacketRegisters, X86_64};
use super::watchpoints::{Kind, Request};
use crate::engine::EngineError;
use crate::machine::End;

/// What gdb knows as EFAULT.
const NO_MEMORY: u8 = 14;
/// What gdb knows as EINVAL.
const NOT_POSSIBLE: u8 = 22;

/// What came to be of a machine, or why one of its processors has stopped.
pub(super) type Reason = MultiThreadStopReason<u64>;

/// A processor's number as gdb has it: threads are counted from 1.
fn thread(number: usize) -> Tid {
    NonZeroUsize::MIN.saturating_add(number)
}

fn number(thread: Tid) -> usize {
    thread.get() - 1
}

fn refused(code: u8) -> TargetError<EngineError> {
    TargetError::Errno(code)
}

impl Guest {
    /// What gdb is to be told while it takes the guest to be running, if there is something.
    pub(super) fn news(&mut self) -> Option<Reason> {
        self.ending().or_else(|| {
            let (number, stop) = self.next_stop()?;
            Some(reason(number, stop))
        })
    }

    fn ending(&self) -> Option<Reason> {
        self.machine().end().map(|end| match end {
            End::Exited(status) => Reason::Exited(*status),
            End::Stopped => Reason::Terminated(Signal::SIGTERM),
            End::Reset | End::Failed(_) | End::Denied(_) => Reason::Terminated(Signal::SIGABRT),
        })
    }

    /// Stops the guest because the user wants to; nothing if it does not run.
    pub(super) fn interrupt(&mut self) -> Option<Reason> {
        if !self.is_running() {
            return None;
        }
        self.stop();
        if self.machine().end().is_some() {
            return None;
        }
        Some(Reason::SignalWithThread { tid: thread(0), signal: Signal::SIGINT })
    }
}

fn reason(number: usize, stop: Stop) -> Reason {
    let tid = thread(number);
    match stop {
        Stop::Breakpoint => Reason::SwBreak(tid),
        Stop::HardwareBreakpoint => Reason::HwBreak(tid),
        Stop::Watch(kind, addr) => Reason::Watch { tid, kind, addr },
        Stop::Step => Reason::SignalWithThread { tid, signal: Signal::SIGTRAP },
    }
}

impl Target for Guest {
    type Arch = X86_64;
    type Error = EngineError;

    fn base_ops(&mut self) -> BaseOps<'_, X86_64, EngineError> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_section_offsets(&mut self) -> Option<SectionOffsetsOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Guest {
    fn read_registers(&mut self, registers: &mut PacketRegisters, thread: Tid) -> TargetResult<(), Self> {
        *registers = self.registers(number(thread)).ok_or(refused(NOT_POSSIBLE))?;
        Ok(())
    }

    fn write_registers(&mut self, registers: &PacketRegisters, thread: Tid) -> TargetResult<(), Self> {
        self.set_registers(number(thread), registers).ok_or(refused(NOT_POSSIBLE))
    }

    fn read_addrs(&mut self, start: u64, bytes: &mut [u8], thread: Tid) -> TargetResult<usize, Self> {
        match self.read(number(thread), start, bytes) {
            0 if !bytes.is_empty() => Err(refused(NO_MEMORY)),
            size => Ok(size),
        }
    }

    fn write_addrs(&mut self, start: u64, bytes: &[u8], thread: Tid) -> TargetResult<(), Self> {
        self.write(number(thread), start, bytes).ok_or(refused(NO_MEMORY))
    }

    fn list_active_threads(&mut self, is_active: &mut dyn FnMut(Tid)) -> Result<(), EngineError> {
        (0..self.count()).map(thread).for_each(is_active);
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Guest {
    fn thread_extra_info(&self, thread: Tid, buffer: &mut [u8]) -> Result<usize, EngineError> {
        let name = format!("CPU {}", number(thread));
        let size = name.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        Ok(size)
    }
}

/// Signals that gdb sends along are for processes: a processor knows none.
impl MultiThreadResume for Guest {
    fn resume(&mut self) -> Result<(), EngineError> {
        self.run()
    }

    fn clear_resume_actions(&mut self) -> Result<(), EngineError> {
        *self.plan() = super::guest::Plan::default();
        Ok(())
    }

    fn set_resume_action_continue(&mut self, thread: Tid, _: Option<Signal>) -> Result<(), EngineError> {
        self.plan().continues.insert(number(thread));
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Guest {
    fn set_resume_action_step(&mut self, thread: Tid, _: Option<Signal>) -> Result<(), EngineError> {
        self.plan().steps.insert(number(thread));
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Guest {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), EngineError> {
        self.plan().only_named = true;
        Ok(())
    }
}

impl Breakpoints for Guest {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Guest {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        self.insert_breakpoint(address).map(|()| true).ok_or(refused(NO_MEMORY))
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.remove_breakpoint(address).is_some())
    }
}

const fn instruction(address: u64) -> Request {
    Request { address, length: 1, kind: Kind::Execute }
}

impl HwBreakpoint for Guest {
    fn add_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.watch(instruction(address)).is_some())
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.unwatch(instruction(address)).is_some())
    }
}

impl HwWatchpoint for Guest {
    fn add_hw_watchpoint(&mut self, address: u64, length: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let request = Request { address, length, kind: Kind::Watch(kind) };
        Ok(self.watch(request).is_some())
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let request = Request { address, length, kind: Kind::Watch(kind) };
        Ok(self.unwatch(request).is_some())
    }
}

impl SectionOffsets for Guest {
    /// One address is enough: the other segments keep their distance from the first.
    fn get_section_offsets(&mut self) -> Result<Offsets<u64>, EngineError> {
        Ok(Offsets::Segments { text_seg: self.first_segment(), data_seg: None })
    }
}
