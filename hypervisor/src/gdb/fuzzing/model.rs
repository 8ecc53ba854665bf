//! Model of a VM. All instructions of its vCPUs have one byte and no effect, except `int3`.

use std::cell::RefCell;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::engine::debug::{DebugControl, DebugEvent, INT3, Registers};
use crate::engine::{EngineError, Vcpu, VcpuExit};
use crate::gdb::debug_target::Vcpus;
use crate::image::boot::{KernelEntry, Tsc};

/// Mapped pages: virtual and physical addresses. Both halves of the address space have unmapped pages, and
/// each physical page is mapped once.
pub(super) const PAGES: [(u64, u64); 4] =
    [(0, 0x1_1000), (0x1000, 0x8000), (0x3000, 0x9000), (u64::MAX - 0x1fff, 0x2_0000)];

/// Address of the first segment.
pub(super) const FIRST_SEGMENT: u64 = 0x1000;

/// Address above which the CPU accepts no hardware breakpoint.
const MAX_BREAKPOINT: u64 = u64::MAX - 0x10ff;

/// Number of instructions that all vCPUs execute together. Then they wait forever.
const INSTRUCTIONS: u32 = 500;

/// vCPUs that execute instructions only when the debugger asks for a stop.
#[derive(Debug)]
pub(in crate::gdb) struct ModelVcpus {
    memory: GuestMemoryMmap,
    vcpus: [RefCell<ModelVcpu>; 2],
    instructions: u32,
}

#[derive(Debug)]
struct ModelVcpu {
    registers: Registers,
    control: DebugControl,
    is_running: bool,
    /// True if the kernel has not started the vCPU, so that it has no page tables.
    is_off: bool,
}

impl ModelVcpus {
    pub(in crate::gdb) fn new(memory: &GuestMemoryMmap) -> Self {
        let vcpu = |is_off| {
            let registers = Registers { rip: FIRST_SEGMENT, ..Registers::default() };
            RefCell::new(ModelVcpu { registers, control: DebugControl::default(), is_running: false, is_off })
        };
        Self { memory: memory.clone(), vcpus: [vcpu(false), vcpu(true)], instructions: INSTRUCTIONS }
    }

    /// Executes instructions of a running vCPU until it stops, or until [`INSTRUCTIONS`] are executed.
    fn execute(&mut self, id: usize) -> Option<DebugEvent> {
        let vcpu = self.vcpus.get_mut(id)?.get_mut();
        while vcpu.is_running {
            self.instructions = self.instructions.checked_sub(1)?;
            let event = vcpu.execute(&self.memory);
            vcpu.is_running = event.is_none();
            if event.is_some() {
                return event;
            }
        }
        None
    }
}

impl Vcpus for ModelVcpus {
    fn count(&self) -> usize {
        self.vcpus.len()
    }

    fn is_running(&self) -> bool {
        self.vcpus.iter().any(|vcpu| vcpu.borrow().is_running)
    }

    fn run(&mut self, id: usize) {
        if let Some(vcpu) = self.vcpus.get_mut(id) {
            vcpu.get_mut().is_running = true;
        }
    }

    /// Each running vCPU executes one more instruction, at which it may stop.
    fn pause(&mut self) -> Vec<(usize, DebugEvent)> {
        let mut events = Vec::new();
        for (id, vcpu) in self.vcpus.iter_mut().enumerate() {
            let vcpu = vcpu.get_mut();
            if std::mem::take(&mut vcpu.is_running) {
                events.extend(vcpu.execute(&self.memory).map(|event| (id, event)));
            }
        }
        events
    }

    fn next_stop(&mut self) -> Option<(usize, DebugEvent)> {
        (0..self.count()).find_map(|id| Some((id, self.execute(id)?)))
    }

    fn call<T: Send + 'static>(
        &self,
        id: usize,
        call: impl FnOnce(&mut dyn Vcpu) -> T + Send + 'static,
    ) -> Option<T> {
        let mut vcpu = self.vcpus.get(id)?.borrow_mut();
        if vcpu.is_running { None } else { Some(call(&mut *vcpu)) }
    }
}

impl ModelVcpu {
    /// Executes one instruction. Returns the debug event if the vCPU stops: before `int3`, after a step, or
    /// because the instruction's address is in a debug register.
    fn execute(&mut self, memory: &GuestMemoryMmap) -> Option<DebugEvent> {
        let address = self.registers.rip;
        let opcode = translate(address).and_then(|address| memory.read_obj::<u8>(GuestAddress(address)).ok());
        if opcode == Some(INT3) {
            return self.control.breakpoints.then_some(DebugEvent::Breakpoint(address));
        }
        self.registers.rip = address.wrapping_add(1);
        let registers = (0_u32..).zip(self.control.hardware);
        let hits =
            registers.filter_map(|(number, used)| Some((number, used?))).fold(0, |hits, (number, used)| {
                let is_hit = (used.address..=used.address + (used.length.bytes() - 1)).contains(&address);
                hits | u8::from(is_hit) << number
            });
        (self.control.step || hits != 0).then_some(DebugEvent::Trap { step: self.control.step, hits })
    }
}

fn translate(address: u64) -> Option<u64> {
    let (start, frame) = PAGES.into_iter().find(|(start, _)| address & !0xfff == *start)?;
    Some(frame + (address - start))
}

impl Vcpu for ModelVcpu {
    fn tsc(&self) -> Result<Tsc, EngineError> {
        Ok(Tsc::default())
    }

    fn set_entry(&mut self, _: &KernelEntry) -> Result<(), EngineError> {
        Ok(())
    }

    fn run(&mut self) -> Result<VcpuExit<'_>, EngineError> {
        Ok(VcpuExit::Interrupted)
    }

    fn failure(&mut self) -> String {
        String::new()
    }

    fn registers(&mut self) -> Result<Registers, EngineError> {
        Ok(self.registers.clone())
    }

    fn set_registers(&mut self, registers: &Registers) -> Result<(), EngineError> {
        self.registers = registers.clone();
        Ok(())
    }

    fn translate(&mut self, address: u64) -> Option<u64> {
        translate(address).filter(|_| !self.is_off)
    }

    fn set_debug(&mut self, control: &DebugControl) -> Result<(), EngineError> {
        if control.hardware.iter().flatten().any(|used| used.address > MAX_BREAKPOINT) {
            return Err(EngineError::DebugUnsupported);
        }
        self.control = *control;
        Ok(())
    }

    /// The guest's handler of the exception is assumed to return to the next instruction.
    fn inject_exception(&mut self, event: DebugEvent) -> Result<(), EngineError> {
        if let DebugEvent::Breakpoint(address) = event {
            self.registers.rip = address.wrapping_add(1);
        }
        Ok(())
    }
}
