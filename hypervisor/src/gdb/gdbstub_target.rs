//! [`DebugTarget`] as a target of the crate `gdbstub`.
//!
//! `gdbstub` parses gdb's packets, and has a trait for each group of packets. The implementations here
//! convert between the types of `gdbstub` and those of [`DebugTarget`]. A vCPU becomes a thread, whose ID is
//! the vCPU's ID plus one, because gdb counts threads from 1. An error becomes an errno. A method `support_…`
//! tells `gdbstub` that a group is available.

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

use super::debug_registers::{BreakpointTrigger, WatchRequest};
use super::debug_target::{DebugTarget, StopReason, Vcpus};
use super::registers::{PacketRegisters, X86_64};
use crate::engine::EngineError;
use crate::vcpu::shutdown::ShutdownCause;

/// Error numbers in replies to gdb.
const EFAULT: u8 = 14;
const EINVAL: u8 = 22;

/// Stop reply: how the VM has shut down, or why a vCPU has stopped.
pub(super) type StopReply = MultiThreadStopReason<u64>;

/// Returns the thread ID of a vCPU. gdb counts threads from 1.
fn thread_id(vcpu: usize) -> Tid {
    NonZeroUsize::MIN.saturating_add(vcpu)
}

/// Returns the vCPU with a thread ID.
fn vcpu_id(thread: Tid) -> usize {
    thread.get() - 1
}

fn error(errno: u8) -> TargetError<EngineError> {
    TargetError::Errno(errno)
}

impl<V: Vcpus> DebugTarget<V> {
    /// Returns the next stop reply for a running target, if there is one.
    pub(super) fn next_stop_reply(&mut self) -> Option<StopReply> {
        self.shutdown_reply().or_else(|| {
            let (vcpu, reason) = self.next_stop()?;
            Some(stop_reply(vcpu, reason))
        })
    }

    fn shutdown_reply(&self) -> Option<StopReply> {
        self.vm().shutdown_cause().map(|cause| match cause {
            ShutdownCause::Exited(status) => StopReply::Exited(*status),
            ShutdownCause::Requested => StopReply::Terminated(Signal::SIGTERM),
            ShutdownCause::Reset | ShutdownCause::Failed(_) | ShutdownCause::Denied(_) => {
                StopReply::Terminated(Signal::SIGABRT)
            }
        })
    }

    /// Handles Ctrl-C: pauses a running target, and returns the stop reply. Returns `None` if the target is
    /// not running, or the VM has shut down.
    pub(super) fn interrupt(&mut self) -> Option<StopReply> {
        if !self.is_running() {
            return None;
        }
        self.pause();
        if self.vm().shutdown_cause().is_some() {
            return None;
        }
        Some(StopReply::SignalWithThread { tid: thread_id(0), signal: Signal::SIGINT })
    }
}

fn stop_reply(vcpu: usize, reason: StopReason) -> StopReply {
    let tid = thread_id(vcpu);
    match reason {
        StopReason::Breakpoint => StopReply::SwBreak(tid),
        StopReason::HardwareBreakpoint => StopReply::HwBreak(tid),
        StopReason::Watch(kind, addr) => StopReply::Watch { tid, kind, addr },
        StopReason::Step => StopReply::SignalWithThread { tid, signal: Signal::SIGTRAP },
    }
}

impl<V: Vcpus> Target for DebugTarget<V> {
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

impl<V: Vcpus> MultiThreadBase for DebugTarget<V> {
    fn read_registers(&mut self, registers: &mut PacketRegisters, thread: Tid) -> TargetResult<(), Self> {
        *registers = self.registers(vcpu_id(thread)).ok_or(error(EINVAL))?;
        Ok(())
    }

    fn write_registers(&mut self, registers: &PacketRegisters, thread: Tid) -> TargetResult<(), Self> {
        self.set_registers(vcpu_id(thread), registers).ok_or(error(EINVAL))
    }

    fn read_addrs(&mut self, start: u64, bytes: &mut [u8], thread: Tid) -> TargetResult<usize, Self> {
        match self.read(vcpu_id(thread), start, bytes) {
            0 if !bytes.is_empty() => Err(error(EFAULT)),
            size => Ok(size),
        }
    }

    fn write_addrs(&mut self, start: u64, bytes: &[u8], thread: Tid) -> TargetResult<(), Self> {
        self.write(vcpu_id(thread), start, bytes).ok_or(error(EFAULT))
    }

    fn list_active_threads(&mut self, is_active: &mut dyn FnMut(Tid)) -> Result<(), EngineError> {
        (0..self.count()).map(thread_id).for_each(is_active);
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl<V: Vcpus> ThreadExtraInfo for DebugTarget<V> {
    fn thread_extra_info(&self, thread: Tid, buffer: &mut [u8]) -> Result<usize, EngineError> {
        let name = format!("CPU {}", vcpu_id(thread));
        let size = name.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        Ok(size)
    }
}

/// Signals in resume packets are ignored, because vCPUs have no signals.
impl<V: Vcpus> MultiThreadResume for DebugTarget<V> {
    fn resume(&mut self) -> Result<(), EngineError> {
        self.run_vcpus()
    }

    fn clear_resume_actions(&mut self) -> Result<(), EngineError> {
        *self.resume_actions() = super::debug_target::ResumeActions::default();
        Ok(())
    }

    fn set_resume_action_continue(&mut self, thread: Tid, _: Option<Signal>) -> Result<(), EngineError> {
        self.resume_actions().continues.insert(vcpu_id(thread));
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl<V: Vcpus> MultiThreadSingleStep for DebugTarget<V> {
    fn set_resume_action_step(&mut self, thread: Tid, _: Option<Signal>) -> Result<(), EngineError> {
        self.resume_actions().steps.insert(vcpu_id(thread));
        Ok(())
    }
}

impl<V: Vcpus> MultiThreadSchedulerLocking for DebugTarget<V> {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), EngineError> {
        self.resume_actions().is_scheduler_locked = true;
        Ok(())
    }
}

impl<V: Vcpus> Breakpoints for DebugTarget<V> {
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

impl<V: Vcpus> SwBreakpoint for DebugTarget<V> {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        self.insert_breakpoint(address).map(|()| true).ok_or(error(EFAULT))
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.remove_breakpoint(address).is_some())
    }
}

/// Returns the request for a hardware breakpoint.
const fn execution_at(address: u64) -> WatchRequest {
    WatchRequest { address, length: 1, trigger: BreakpointTrigger::Execute }
}

impl<V: Vcpus> HwBreakpoint for DebugTarget<V> {
    fn add_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.watch(execution_at(address)).is_some())
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.unwatch(execution_at(address)).is_some())
    }
}

impl<V: Vcpus> HwWatchpoint for DebugTarget<V> {
    fn add_hw_watchpoint(&mut self, address: u64, length: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let request = WatchRequest { address, length, trigger: BreakpointTrigger::Watch(kind) };
        Ok(self.watch(request).is_some())
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let request = WatchRequest { address, length, trigger: BreakpointTrigger::Watch(kind) };
        Ok(self.unwatch(request).is_some())
    }
}

impl<V: Vcpus> SectionOffsets for DebugTarget<V> {
    /// gdb relocates all segments by the offset of the first segment.
    fn get_section_offsets(&mut self) -> Result<Offsets<u64>, EngineError> {
        Ok(Offsets::Segments { text_seg: self.first_segment(), data_seg: None })
    }
}
