//! One processor.

use std::io;

use kvm_bindings::{Msrs, kvm_msr_entry, kvm_sregs};
use kvm_ioctls::{VcpuExit, VcpuFd};
use vm_memory::{Bytes, GuestAddress};

use super::super::debug::{BREAKPOINT, DebugControl, DebugEvent, Registers};
use super::super::{EngineError, Exit, Vcpu};
use super::{KvmEngine, cpuid, debug, failed, internal, registers, self_test, start};
use crate::boot::{Entry, Tsc};
use crate::memory::Memory;

/// The time-stamp counter as a model-specific register.
const TSC: u32 = 0x10;

/// Types of memory: write-back wherever nothing else is said, as the host's own memory is.
const MEMORY_TYPES: u32 = 0x2ff;
const WRITE_BACK: u64 = 1 << 11 | 6;

/// A processor.
#[derive(Debug)]
pub struct KvmVcpu {
    pub(super) vcpu: VcpuFd,
    pub(super) memory: Memory,
    /// The state after a reset.
    reset: kvm_sregs,
    tsc_kilohertz: u32,
    /// Why it cannot go on.
    failure: String,
    /// Breakpoint instructions stop it.
    stops_at_breakpoints: bool,
    /// Interrupts can wait while it steps.
    can_block_interrupts: bool,
    /// KVM merely emulates, and without breakpoint instructions.
    lacks_breakpoints: bool,
}

impl KvmVcpu {
    pub(super) fn new(engine: &KvmEngine, number: u32, count: u32) -> Result<Self, EngineError> {
        let KvmEngine { kvm, vm, memory } = engine;
        let vcpu = vm.create_vcpu(number.into()).map_err(failed("create a processor"))?;
        let tsc_kilohertz = vcpu.get_tsc_khz().map_err(failed("say how fast the time-stamp counter is"))?;
        let leaves = cpuid::leaves(kvm, number, count, tsc_kilohertz)?;
        vcpu.set_cpuid2(&leaves).map_err(failed("say what a processor can do"))?;
        let types = kvm_msr_entry { index: MEMORY_TYPES, data: WRITE_BACK, ..kvm_msr_entry::default() };
        let types = Msrs::from_entries(&[types]).map_err(|_| EngineError::Lacks("memory types"))?;
        if vcpu.set_msrs(&types).map_err(failed("set memory types"))? != 1 {
            return Err(EngineError::Lacks("memory types"));
        }
        let reset = vcpu.get_sregs().map_err(failed("read registers"))?;
        Ok(Self {
            vcpu,
            memory: memory.clone(),
            reset,
            tsc_kilohertz,
            failure: String::new(),
            stops_at_breakpoints: false,
            can_block_interrupts: debug::can_block_interrupts(kvm),
            lacks_breakpoints: false,
        })
    }

    /// As `enter`, with vector instructions switched on, which the kernel does by itself.
    pub(super) fn enter_with_vectors(&mut self, entry: &Entry) -> Result<(), EngineError> {
        self.enter(entry)?;
        let mut system = self.vcpu.get_sregs().map_err(failed("read registers"))?;
        system.cr4 |= start::CR4_VECTORS;
        self.vcpu.set_sregs(&system).map_err(failed("set system registers"))
    }

    /// The bytes of the instruction at a guest's address, and perhaps those after it.
    fn instruction(&self, address: u64) -> Option<[u8; 8]> {
        let place = self.vcpu.translate_gva(address).ok().filter(|place| place.valid != 0)?;
        let mut bytes = [0; 8];
        self.memory.guest().read_slice(&mut bytes, GuestAddress(place.physical_address)).ok()?;
        Some(bytes)
    }
}

impl Vcpu for KvmVcpu {
    fn self_test(&mut self) -> Result<(), EngineError> {
        self_test::run(self)
    }

    fn tsc(&self) -> Result<Tsc, EngineError> {
        let counter = kvm_msr_entry { index: TSC, ..kvm_msr_entry::default() };
        let mut counter =
            Msrs::from_entries(&[counter]).map_err(|_| EngineError::Lacks("time-stamp counter"))?;
        if self.vcpu.get_msrs(&mut counter).map_err(failed("read the time-stamp counter"))? != 1 {
            return Err(EngineError::Lacks("time-stamp counter"));
        }
        let now = counter.as_slice().first().map_or(0, |entry| entry.data);
        Ok(Tsc { frequency: u64::from(self.tsc_kilohertz) * 1000, now })
    }

    fn enter(&mut self, entry: &Entry) -> Result<(), EngineError> {
        let system = start::system_registers(self.reset, entry);
        self.vcpu.set_sregs(&system).map_err(failed("set system registers"))?;
        self.vcpu.set_fpu(&start::floating_point()).map_err(failed("set floating point"))?;
        self.vcpu.set_regs(&start::registers(entry)).map_err(failed("set registers"))
    }

    fn run(&mut self) -> Result<Exit<'_>, EngineError> {
        match self.vcpu.run() {
            Ok(VcpuExit::IoIn(port, bytes)) => Ok(Exit::PortRead(port, bytes)),
            Ok(VcpuExit::IoOut(port, bytes)) => Ok(Exit::PortWrite(port, bytes)),
            Ok(VcpuExit::MmioRead(address, bytes)) => Ok(Exit::Read(address, bytes)),
            Ok(VcpuExit::MmioWrite(address, bytes)) => Ok(Exit::Write(address, bytes)),
            Ok(VcpuExit::Debug(exit)) => Ok(Exit::Debug(debug::event(&exit))),
            Ok(VcpuExit::Intr) => Ok(Exit::Interrupted),
            Ok(VcpuExit::Shutdown) => Ok(Exit::Reset),
            Ok(other) => {
                self.failure = format!("{other:?}");
                Ok(Exit::Failed)
            }
            Err(error) => match error.errno() {
                libc::EINTR | libc::EAGAIN => Ok(Exit::Interrupted),
                number => {
                    self.failure = io::Error::from_raw_os_error(number).to_string();
                    Ok(Exit::Failed)
                }
            },
        }
    }

    fn failure(&mut self) -> String {
        if let Some(reason) = internal::error(self.vcpu.get_kvm_run()) {
            reason.clone_into(&mut self.failure);
        }
        let place = self.vcpu.get_regs().map_or(0, |registers| registers.rip);
        let bytes = self.instruction(place).unwrap_or_default().map(|byte| format!("{byte:02x}")).join(" ");
        format!("a processor cannot go on at {place:#x} (code {bytes}): {}", self.failure)
    }

    fn failed_at_breakpoint(&mut self) -> Option<DebugEvent> {
        let place = self.vcpu.get_regs().ok().filter(|_| self.stops_at_breakpoints)?.rip;
        let is_breakpoint = self.instruction(place)?.starts_with(&[BREAKPOINT]);
        self.lacks_breakpoints |= is_breakpoint;
        is_breakpoint.then_some(DebugEvent::Breakpoint(place))
    }

    fn registers(&mut self) -> Result<Registers, EngineError> {
        registers::read(&self.vcpu)
    }

    fn set_registers(&mut self, registers: &Registers) -> Result<(), EngineError> {
        registers::write(&self.vcpu, registers)
    }

    fn translate(&mut self, address: u64) -> Option<u64> {
        let place = self.vcpu.translate_gva(address).ok()?;
        (place.valid != 0).then_some(place.physical_address)
    }

    fn set_debug(&mut self, control: &DebugControl) -> Result<(), EngineError> {
        debug::set(&self.vcpu, control, self.can_block_interrupts)?;
        self.stops_at_breakpoints = control.breakpoints;
        Ok(())
    }

    fn give_back(&mut self, event: DebugEvent) -> Result<(), EngineError> {
        if self.lacks_breakpoints && matches!(event, DebugEvent::Breakpoint(_)) {
            // The guest must find the address of the next instruction, as processors tell it.
            let mut registers = self.vcpu.get_regs().map_err(failed("read registers"))?;
            registers.rip = registers.rip.wrapping_add(1);
            self.vcpu.set_regs(&registers).map_err(failed("set registers"))?;
        }
        debug::give_back(&self.vcpu, event)
    }
}
