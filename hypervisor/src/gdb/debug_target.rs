//! The VM as a debug target: resume, step, stop, breakpoints, memory and registers.
//!
//! [`DebugTarget`] implements gdb's all-stop mode, without the protocol. In this mode, gdb sees a VM that is
//! either running or stopped. So when one vCPU stops, all others are paused before the stop is reported.
//! Events of other vCPUs in between are recorded, or occur again later. A software breakpoint is an `int3` in
//! guest memory. A watchpoint is in the debug registers of all vCPUs. The guest may cause the same exceptions
//! itself. An exception that no breakpoint explains is injected into the guest, as if there were no debugger.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use gdbstub::target::ext::breakpoints::WatchKind;
use vmm_sys_util::eventfd::EventFd;

use super::breakpoints::Breakpoints;
use super::debug_registers::{BreakpointTrigger, DebugRegisters, WatchRequest};
use super::memory;
use super::registers::PacketRegisters;
use crate::engine::debug::{DebugControl, DebugEvent, INT3};
use crate::engine::{EngineError, Vcpu};
use crate::memory::Memory;
use crate::vcpu::manager::VcpuManager;
use crate::vcpu::shutdown::VmHandle;

/// vCPUs of a VM, as a debugger uses them: [`VcpuManager`], or a model.
pub(super) trait Vcpus {
    /// Returns the number of vCPUs.
    fn count(&self) -> usize;

    /// Returns true if any vCPU runs.
    fn is_running(&self) -> bool;

    /// Resumes a vCPU.
    fn run(&mut self, id: usize);

    /// Pauses all vCPUs. Returns the vCPUs that stopped at a debug event before they were paused, and these
    /// events.
    fn pause(&mut self) -> Vec<(usize, DebugEvent)>;

    /// Returns a vCPU that has stopped at a debug event, and the event; `None` if there is no such vCPU.
    fn next_stop(&mut self) -> Option<(usize, DebugEvent)>;

    /// Calls `call` with a paused vCPU, and returns its result. Returns `None` if the vCPU runs or has
    /// exited.
    fn call<T: Send + 'static>(
        &self,
        id: usize,
        call: impl FnOnce(&mut dyn Vcpu) -> T + Send + 'static,
    ) -> Option<T>;
}

impl Vcpus for VcpuManager {
    fn count(&self) -> usize {
        self.count()
    }

    fn is_running(&self) -> bool {
        self.is_running()
    }

    fn run(&mut self, id: usize) {
        self.run(id);
    }

    fn pause(&mut self) -> Vec<(usize, DebugEvent)> {
        self.pause()
    }

    fn next_stop(&mut self) -> Option<(usize, DebugEvent)> {
        self.next_stop()
    }

    fn call<T: Send + 'static>(
        &self,
        id: usize,
        call: impl FnOnce(&mut dyn Vcpu) -> T + Send + 'static,
    ) -> Option<T> {
        self.call(id, call)
    }
}

/// VM that is debugged in all-stop mode. Either all its vCPUs are paused, or the vCPUs that gdb has resumed
/// run.
#[derive(Debug)]
pub(super) struct DebugTarget<V = VcpuManager> {
    vcpus: V,
    vm: Arc<VmHandle>,
    memory: Memory,
    first_segment: u64,
    breakpoints: Breakpoints,
    debug_registers: DebugRegisters,
    /// Current debug control of each vCPU.
    controls: Vec<DebugControl>,
    resume: ResumeActions,
    /// Watchpoint hits (vCPU, bits of the debug registers) that happened while another stop was reported.
    /// They must be reported later, because the access is complete and will not occur again.
    pending_hits: VecDeque<(usize, u8)>,
    /// True if the guest has been resumed.
    has_run: bool,
}

/// The vCPUs that the next resume runs, and how it runs them.
#[derive(Debug, Default)]
pub(super) struct ResumeActions {
    /// vCPUs that execute one instruction. If there are any, the other vCPUs stay paused.
    pub(super) steps: BTreeSet<usize>,
    /// vCPUs that continue, if the scheduler is locked.
    pub(super) continues: BTreeSet<usize>,
    /// True with gdb's `set scheduler-locking on`: only the vCPUs above run.
    pub(super) is_scheduler_locked: bool,
}

impl ResumeActions {
    /// Returns the vCPUs that run. The value of each is true if it executes only one instruction.
    fn runs(&self, count: usize) -> Vec<(usize, bool)> {
        let has_steps = !self.steps.is_empty();
        let is_resumed = |id: &usize| match (has_steps, self.is_scheduler_locked) {
            (true, _) => self.steps.contains(id),
            (false, true) => self.continues.contains(id),
            (false, false) => true,
        };
        (0..count).filter(is_resumed).map(|id| (id, has_steps)).collect()
    }
}

/// Reason of a stop that is reported to gdb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// Software breakpoint.
    Breakpoint,
    /// Hardware breakpoint.
    HardwareBreakpoint,
    /// Watchpoint at this address.
    Watch(WatchKind, u64),
    /// Single step.
    Step,
}

impl<V: Vcpus> DebugTarget<V> {
    pub(super) fn new(vcpus: V, vm: Arc<VmHandle>, memory: Memory, first_segment: u64) -> Self {
        let controls = vec![DebugControl::default(); vcpus.count()];
        Self {
            vcpus,
            vm,
            memory,
            first_segment,
            breakpoints: Breakpoints::default(),
            debug_registers: DebugRegisters::default(),
            controls,
            resume: ResumeActions::default(),
            pending_hits: VecDeque::new(),
            has_run: false,
        }
    }

    /// Returns true if the guest has been resumed at least once.
    pub(super) const fn has_run(&self) -> bool {
        self.has_run
    }

    pub(super) fn vm(&self) -> &VmHandle {
        &self.vm
    }

    pub(super) fn into_vcpus(self) -> V {
        self.vcpus
    }

    /// Returns the number of vCPUs.
    pub(super) fn count(&self) -> usize {
        self.vcpus.count()
    }

    /// Returns the virtual address of the image's first segment.
    pub(super) const fn first_segment(&self) -> u64 {
        self.first_segment
    }

    /// Returns the actions of the next [`Self::run_vcpus`], to change them.
    pub(super) const fn resume_actions(&mut self) -> &mut ResumeActions {
        &mut self.resume
    }

    /// Returns true if any vCPU runs.
    pub(super) fn is_running(&self) -> bool {
        self.vcpus.is_running()
    }

    /// Resumes the vCPUs of [`Self::resume_actions`]. Resumes no vCPU while a watchpoint hit is pending,
    /// because the hit must be reported first.
    pub(super) fn run_vcpus(&mut self) -> Result<(), EngineError> {
        if !self.pending_hits.is_empty() {
            return Ok(());
        }
        self.has_run = true;
        let hardware = self.debug_registers.values();
        for (id, step) in self.resume.runs(self.count()) {
            self.set_control(id, DebugControl { breakpoints: true, step, hardware })?;
            self.vcpus.run(id);
        }
        Ok(())
    }

    /// Sets the debug control of a vCPU, if it changes.
    fn set_control(&mut self, id: usize, wanted: DebugControl) -> Result<(), EngineError> {
        let Some(control) = self.controls.get_mut(id).filter(|control| **control != wanted) else {
            return Ok(());
        };
        *control = wanted;
        // A vCPU whose thread has exited needs no debug control.
        self.vcpus.call(id, move |vcpu| vcpu.set_debug(&wanted)).unwrap_or(Ok(()))
    }

    /// Pauses all vCPUs.
    pub(super) fn pause(&mut self) {
        for (id, event) in self.vcpus.pause() {
            match (self.stop_reason(id, event), event) {
                (None, _) => self.inject_exception(id, event),
                (Some(StopReason::Watch(..)), DebugEvent::Trap { hits, .. }) => {
                    self.pending_hits.push_back((id, hits));
                }
                // Other events need not be recorded: a breakpoint is reached again when the vCPU is resumed,
                // and a step that another stop has ended is not reported.
                _ => {}
            }
        }
    }

    /// Returns the next stop to report, if there is one, and pauses all vCPUs. Exceptions of the guest itself
    /// are injected into it.
    pub(super) fn next_stop(&mut self) -> Option<(usize, StopReason)> {
        while let Some((id, hits)) = self.pending_hits.pop_front() {
            // gdb may have removed the watchpoint.
            if let Some(reason) = self.hit(hits) {
                self.pause();
                return Some((id, reason));
            }
        }
        while let Some((id, event)) = self.vcpus.next_stop() {
            if let Some(reason) = self.stop_reason(id, event) {
                self.pause();
                return Some((id, reason));
            }
            self.inject_exception(id, event);
            self.vcpus.run(id);
        }
        None
    }

    /// Decodes a debug event. Returns `None` if the guest itself has caused it.
    fn stop_reason(&self, id: usize, event: DebugEvent) -> Option<StopReason> {
        match event {
            DebugEvent::Breakpoint(address) => {
                self.breakpoints.is_at(address).then_some(StopReason::Breakpoint)
            }
            DebugEvent::Trap { step, hits } => {
                let is_step = step && self.controls.get(id).is_some_and(|control| control.step);
                self.hit(hits).or(is_step.then_some(StopReason::Step))
            }
        }
    }

    /// Decodes the debug registers that were hit.
    fn hit(&self, hits: u8) -> Option<StopReason> {
        self.debug_registers.first_hit(hits).map(|(address, trigger)| match trigger {
            BreakpointTrigger::Execute => StopReason::HardwareBreakpoint,
            BreakpointTrigger::Watch(kind) => StopReason::Watch(kind, address),
        })
    }

    /// Injects into the guest an exception that the guest has caused.
    fn inject_exception(&self, id: usize, event: DebugEvent) {
        let result = self.vcpus.call(id, move |vcpu| vcpu.inject_exception(event));
        if let Some(Err(error)) = result {
            log::warn!("an exception of the guest is lost: {error}");
        }
    }

    /// Detaches from the guest: removes all breakpoints and watchpoints, and resumes all vCPUs.
    pub(super) fn detach(&mut self) {
        self.clear();
        self.has_run = true;
        (0..self.count()).for_each(|id| self.vcpus.run(id));
    }

    /// Pauses all vCPUs, and removes all breakpoints and watchpoints.
    pub(super) fn clear(&mut self) {
        self.pause();
        for (address, byte) in self.breakpoints.take() {
            // Fails if the guest has unmapped the memory.
            let _: Option<()> = self.write_raw(0, address, &[byte]);
        }
        self.debug_registers.clear();
        self.pending_hits.clear();
        self.resume = ResumeActions::default();
        for id in 0..self.count() {
            if let Err(error) = self.set_control(id, DebugControl::default()) {
                log::warn!("CPU {id} still stops for gdb: {error}");
            }
        }
    }

    /// Reads the registers of a vCPU.
    pub(super) fn registers(&self, id: usize) -> Option<PacketRegisters> {
        let registers = self.vcpus.call(id, |vcpu| vcpu.registers())?.ok()?;
        Some(PacketRegisters::from(&registers))
    }

    /// Writes the registers of a vCPU.
    pub(super) fn set_registers(&self, id: usize, registers: &PacketRegisters) -> Option<()> {
        let current = self.vcpus.call(id, |vcpu| vcpu.registers())?.ok()?;
        let wanted = registers.apply_to(&current)?;
        self.vcpus.call(id, move |vcpu| vcpu.set_registers(&wanted))?.ok()
    }

    /// Reads memory with the page tables of a vCPU. Breakpoints are replaced by the guest's instructions.
    /// Returns the number of bytes read.
    pub(super) fn read(&self, id: usize, address: u64, bytes: &mut [u8]) -> usize {
        let size = self.read_raw(id, address, bytes);
        self.breakpoints.hide(address, bytes.get_mut(..size).unwrap_or_default());
        size
    }

    /// Writes memory with the page tables of a vCPU. Breakpoints remain in place.
    pub(super) fn write(&mut self, id: usize, address: u64, bytes: &[u8]) -> Option<()> {
        // gdb may also write breakpoints as data.
        if bytes == [INT3] && self.breakpoints.is_full() && !self.breakpoints.is_at(address) {
            return None;
        }
        // A write that fails must not change the record of breakpoints.
        let mut current = vec![0; bytes.len()];
        if self.read_raw(id, address, &mut current) != bytes.len() {
            return None;
        }
        let merged = self.breakpoints.merge_write(address, bytes);
        self.write_raw(id, address, &merged)
    }

    /// Reads memory with the breakpoints in it. A vCPU that the kernel has not started has no page tables.
    /// For such a vCPU, the page tables of the boot CPU are used, because the guest has only one address
    /// space.
    pub(super) fn read_raw(&self, id: usize, address: u64, bytes: &mut [u8]) -> usize {
        let read = |id, bytes: &mut [u8]| {
            memory::read(self.memory.guest(), |address| self.translate(id, address), address, bytes)
        };
        match read(id, bytes) {
            0 => read(0, bytes),
            size => size,
        }
    }

    /// Writes memory regardless of breakpoints, with the same page tables as [`Self::read_raw`].
    fn write_raw(&self, id: usize, address: u64, bytes: &[u8]) -> Option<()> {
        let write =
            |id| memory::write(self.memory.guest(), |address| self.translate(id, address), address, bytes);
        write(id).or_else(|| write(0))
    }

    fn translate(&self, id: usize, address: u64) -> Option<u64> {
        self.vcpus.call(id, move |vcpu| vcpu.translate(address))?
    }

    /// Sets a software breakpoint.
    pub(super) fn insert_breakpoint(&mut self, address: u64) -> Option<()> {
        if self.breakpoints.is_set(address) {
            return Some(());
        }
        if self.breakpoints.is_full() {
            return None;
        }
        let mut byte = [0];
        if self.read_raw(0, address, &mut byte) != 1 {
            return None;
        }
        self.write_raw(0, address, &[INT3])?;
        let [byte] = byte;
        self.breakpoints.insert(address, byte);
        Some(())
    }

    /// Removes a software breakpoint.
    pub(super) fn remove_breakpoint(&mut self, address: u64) -> Option<()> {
        let byte = self.breakpoints.remove(address)?;
        // Fails if the guest has unmapped the memory.
        let _: Option<()> = self.write_raw(0, address, &[byte]);
        Some(())
    }

    /// Sets a watchpoint or hardware breakpoint. Returns `None` if there are too few debug registers or a
    /// vCPU refuses it.
    pub(super) fn watch(&mut self, request: WatchRequest) -> Option<()> {
        self.debug_registers.insert(request)?;
        let Err(error) = self.set_debug_registers() else { return Some(()) };
        log::info!("a watchpoint is refused: {error}");
        self.debug_registers.remove(request)?;
        // Cannot fail: the vCPUs had these values before.
        let _: Result<(), EngineError> = self.set_debug_registers();
        None
    }

    /// Removes a watchpoint or hardware breakpoint. The vCPUs get the new debug registers when they are
    /// resumed.
    pub(super) fn unwatch(&mut self, request: WatchRequest) -> Option<()> {
        self.debug_registers.remove(request)
    }

    fn set_debug_registers(&mut self) -> Result<(), EngineError> {
        let hardware = self.debug_registers.values();
        let controls = self.controls.clone();
        let wanted = controls.into_iter().map(|control| DebugControl { hardware, ..control });
        wanted.enumerate().try_for_each(|(id, wanted)| self.set_control(id, wanted))
    }
}

impl DebugTarget {
    /// Returns the event that is readable when a vCPU may have stopped.
    pub(super) fn stop_event(&self) -> &EventFd {
        self.vcpus.stop_event()
    }

    /// Clears [`Self::stop_event`] until the next stop.
    pub(super) fn clear_stop_event(&self) {
        self.vcpus.clear_stop_event();
    }
}

#[cfg(test)]
mod tests;
