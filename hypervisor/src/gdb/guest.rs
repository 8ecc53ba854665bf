//! The machine as a debugger treats it: stops, runs, steps.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use gdbstub::target::ext::breakpoints::WatchKind;
use vmm_sys_util::eventfd::EventFd;

use super::breakpoints::Breakpoints;
use super::memory;
use super::registers::PacketRegisters;
use super::watchpoints::{Kind, Request, Watchpoints};
use crate::control::Controller;
use crate::engine::EngineError;
use crate::engine::debug::{BREAKPOINT, DebugControl, DebugEvent};
use crate::machine::Machine;
use crate::memory::Memory;

/// A guest that is debugged. All its processors run, as far as gdb wants them to, or all are paused.
#[derive(Debug)]
pub(super) struct Guest {
    controller: Controller,
    machine: Arc<Machine>,
    memory: Memory,
    first_segment: u64,
    breakpoints: Breakpoints,
    watchpoints: Watchpoints,
    /// What each processor stops at.
    controls: Vec<DebugControl>,
    plan: Plan,
    /// Watchpoints that came true while gdb heard of another stop: the access is done and does not happen again.
    late: VecDeque<(usize, u8)>,
}

/// Who is to run.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// These do one instruction each; then nobody else runs.
    pub(super) steps: BTreeSet<usize>,
    /// These run, if only those named do.
    pub(super) continues: BTreeSet<usize>,
    /// Only those named run.
    pub(super) only_named: bool,
}

impl Plan {
    /// Each processor that runs, and whether it does one step.
    fn runs(&self, count: usize) -> Vec<(usize, bool)> {
        let has_steps = !self.steps.is_empty();
        let is_meant = |number: &usize| match (has_steps, self.only_named) {
            (true, _) => self.steps.contains(number),
            (false, true) => self.continues.contains(number),
            (false, false) => true,
        };
        (0..count).filter(is_meant).map(|number| (number, has_steps)).collect()
    }
}

/// Why gdb hears of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// A breakpoint instruction of gdb's.
    Breakpoint,
    /// A breakpoint in a debug register.
    HardwareBreakpoint,
    /// A watchpoint, and where.
    Watch(WatchKind, u64),
    /// It has done its step.
    Step,
}

impl Guest {
    pub(super) fn new(
        controller: Controller,
        machine: Arc<Machine>,
        memory: Memory,
        first_segment: u64,
    ) -> Self {
        let controls = vec![DebugControl::default(); controller.count()];
        Self {
            controller,
            machine,
            memory,
            first_segment,
            breakpoints: Breakpoints::default(),
            watchpoints: Watchpoints::default(),
            controls,
            plan: Plan::default(),
            late: VecDeque::new(),
        }
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(super) fn into_controller(self) -> Controller {
        self.controller
    }

    /// How many processors there are.
    pub(super) const fn count(&self) -> usize {
        self.controller.count()
    }

    /// Where the image's first segment is.
    pub(super) const fn first_segment(&self) -> u64 {
        self.first_segment
    }

    /// Who is to run next.
    pub(super) const fn plan(&mut self) -> &mut Plan {
        &mut self.plan
    }

    /// Readable when there may be a stop.
    pub(super) fn stirred(&self) -> &EventFd {
        self.controller.stirred()
    }

    /// Has [`Self::stirred`] be readable no more until the next stop.
    pub(super) fn calm(&self) {
        self.controller.calm();
    }

    /// Whether any processor runs.
    pub(super) fn is_running(&self) -> bool {
        self.controller.is_running()
    }

    /// Lets those run that are planned. Nobody does if a stop is late: it is heard of first.
    pub(super) fn run(&mut self) -> Result<(), EngineError> {
        if !self.late.is_empty() {
            return Ok(());
        }
        let hardware = self.watchpoints.registers();
        for (number, step) in self.plan.runs(self.count()) {
            self.control(number, DebugControl { breakpoints: true, step, hardware })?;
            self.controller.run(number);
        }
        Ok(())
    }

    /// Tells a processor at what to stop, if that is new.
    fn control(&mut self, number: usize, wanted: DebugControl) -> Result<(), EngineError> {
        let Some(control) = self.controls.get_mut(number).filter(|control| **control != wanted) else {
            return Ok(());
        };
        *control = wanted;
        // A processor that has ended stops at nothing.
        self.controller.ask(number, move |vcpu| vcpu.set_debug(&wanted)).unwrap_or(Ok(()))
    }

    /// Pauses all processors.
    pub(super) fn stop(&mut self) {
        for (number, event) in self.controller.pause() {
            match (self.meaning(number, event), event) {
                (None, _) => self.give_back(number, event),
                (Some(Stop::Watch(..)), DebugEvent::Trap { hits, .. }) => self.late.push_back((number, hits)),
                // It comes to the breakpoint again, or gdb wants the step no more.
                _ => {}
            }
        }
    }

    /// The next stop that is gdb's. All processors are paused then.
    pub(super) fn next_stop(&mut self) -> Option<(usize, Stop)> {
        while let Some((number, hits)) = self.late.pop_front() {
            // gdb may have removed the watchpoint.
            if let Some(stop) = self.hit(hits) {
                self.stop();
                return Some((number, stop));
            }
        }
        while let Some((number, event)) = self.controller.next_stop() {
            if let Some(stop) = self.meaning(number, event) {
                self.stop();
                return Some((number, stop));
            }
            self.give_back(number, event);
            self.controller.run(number);
        }
        None
    }

    /// What an event is to gdb; nothing if it is the guest's own.
    fn meaning(&self, number: usize, event: DebugEvent) -> Option<Stop> {
        match event {
            DebugEvent::Breakpoint(address) => self.breakpoints.is_at(address).then_some(Stop::Breakpoint),
            DebugEvent::Trap { step, hits } => {
                let is_step = step && self.controls.get(number).is_some_and(|control| control.step);
                self.hit(hits).or(is_step.then_some(Stop::Step))
            }
        }
    }

    fn hit(&self, hits: u8) -> Option<Stop> {
        self.watchpoints.first_of(hits).map(|(address, kind)| match kind {
            Kind::Execute => Stop::HardwareBreakpoint,
            Kind::Watch(kind) => Stop::Watch(kind, address),
        })
    }

    /// Has the guest handle what is its own.
    fn give_back(&self, number: usize, event: DebugEvent) {
        let given = self.controller.ask(number, move |vcpu| vcpu.give_back(event));
        if let Some(Err(error)) = given {
            log::warn!("an exception of the guest's is lost: {error}");
        }
    }

    /// Leaves the guest to itself: nothing of the debugger's remains, and all processors run.
    pub(super) fn let_go(&mut self) {
        self.stop();
        for (address, byte) in self.breakpoints.take() {
            // Where there is no memory any more there is no breakpoint.
            let _: Option<()> = self.write_around(0, address, &[byte]);
        }
        self.watchpoints.clear();
        self.late.clear();
        self.plan = Plan::default();
        for number in 0..self.count() {
            if let Err(error) = self.control(number, DebugControl::default()) {
                log::warn!("a processor still stops for gdb: {error}");
            }
        }
        self.controller.run_all();
    }

    /// A processor's registers.
    pub(super) fn registers(&self, number: usize) -> Option<PacketRegisters> {
        let registers = self.controller.ask(number, |vcpu| vcpu.registers())?.ok()?;
        Some(PacketRegisters::from(&registers))
    }

    /// Sets a processor's registers.
    pub(super) fn set_registers(&self, number: usize, registers: &PacketRegisters) -> Option<()> {
        let current = self.controller.ask(number, |vcpu| vcpu.registers())?.ok()?;
        let wanted = registers.over(&current)?;
        self.controller.ask(number, move |vcpu| vcpu.set_registers(&wanted))?.ok()
    }

    /// Reads memory as a processor sees it, without breakpoints, and says how many bytes there are.
    pub(super) fn read(&self, number: usize, address: u64, bytes: &mut [u8]) -> usize {
        let size = self.read_around(number, address, bytes);
        self.breakpoints.hide(address, bytes.get_mut(..size).unwrap_or_default());
        size
    }

    /// Writes memory as a processor sees it, around breakpoints.
    pub(super) fn write(&mut self, number: usize, address: u64, bytes: &[u8]) -> Option<()> {
        // Refused before breakpoints know of it.
        let mut current = vec![0; bytes.len()];
        if self.read_around(number, address, &mut current) != bytes.len() {
            return None;
        }
        let kept = self.breakpoints.keep(address, bytes);
        self.write_around(number, address, &kept)
    }

    /// Reads what is there. A processor that the kernel has not started has no page tables; then the first one's count,
    /// because all of the guest is one address space.
    fn read_around(&self, number: usize, address: u64, bytes: &mut [u8]) -> usize {
        let read = |number, bytes: &mut [u8]| {
            memory::read(self.memory.guest(), |address| self.translate(number, address), address, bytes)
        };
        match read(number, bytes) {
            0 => read(0, bytes),
            size => size,
        }
    }

    /// Writes what is there.
    fn write_around(&self, number: usize, address: u64, bytes: &[u8]) -> Option<()> {
        let write = |number| {
            memory::write(self.memory.guest(), |address| self.translate(number, address), address, bytes)
        };
        write(number).or_else(|| write(0))
    }

    fn translate(&self, number: usize, address: u64) -> Option<u64> {
        self.controller.ask(number, move |vcpu| vcpu.translate(address))?
    }

    /// Replaces an instruction by a breakpoint.
    pub(super) fn insert_breakpoint(&mut self, address: u64) -> Option<()> {
        if self.breakpoints.is_set(address) {
            return Some(());
        }
        let mut byte = [0];
        if self.read_around(0, address, &mut byte) != 1 {
            return None;
        }
        self.write_around(0, address, &[BREAKPOINT])?;
        let [byte] = byte;
        self.breakpoints.insert(address, byte);
        Some(())
    }

    /// Puts the instruction back.
    pub(super) fn remove_breakpoint(&mut self, address: u64) -> Option<()> {
        let byte = self.breakpoints.remove(address)?;
        // Where there is no memory any more there is no breakpoint.
        let _: Option<()> = self.write_around(0, address, &[byte]);
        Some(())
    }

    /// Sets a watchpoint, or a breakpoint in a debug register, unless there are too few or a processor refuses it.
    pub(super) fn watch(&mut self, request: Request) -> Option<()> {
        self.watchpoints.insert(request)?;
        let Err(refusal) = self.set_watchpoints() else { return Some(()) };
        log::info!("a watchpoint is refused: {refusal}");
        self.watchpoints.remove(request)?;
        // They had these before.
        let _: Result<(), EngineError> = self.set_watchpoints();
        None
    }

    /// Removes it. Processors hear of that when they run.
    pub(super) fn unwatch(&mut self, request: Request) -> Option<()> {
        self.watchpoints.remove(request)
    }

    fn set_watchpoints(&mut self) -> Result<(), EngineError> {
        let hardware = self.watchpoints.registers();
        let controls = self.controls.clone();
        let wanted = controls.into_iter().map(|control| DebugControl { hardware, ..control });
        wanted.enumerate().try_for_each(|(number, wanted)| self.control(number, wanted))
    }
}

#[cfg(test)]
mod tests;
