//! KVM vCPU.

use std::io;

use kvm_bindings::{KVM_CAP_ENFORCE_PV_FEATURE_CPUID, Msrs, kvm_msr_entry, kvm_sregs};
use kvm_ioctls::{VcpuExit as KvmExit, VcpuFd};
use vm_memory::{Bytes, GuestAddress};

use super::super::debug::{DebugControl, DebugEvent, INT3, Registers};
use super::super::{EngineError, Vcpu, VcpuExit};
use super::error::{KvmError, ioctl_failed};
use super::{KvmEngine, KvmVm, cpuid, debug, host_protection, initial_state, internal_error, registers};
use crate::image::boot::{KernelEntry, Tsc};
use crate::memory::Memory;

/// MSR IA32_TIME_STAMP_COUNTER.
const MSR_TSC: u32 = 0x10;

/// MSR IA32_MTRR_DEF_TYPE, and the value that enables MTRRs with write-back as the default, the type of the
/// host's memory.
const MSR_MTRR_DEF_TYPE: u32 = 0x2ff;
const MTRR_WRITE_BACK: u64 = 1 << 11 | 6;

/// vCPU of KVM.
#[derive(Debug)]
pub struct KvmVcpu {
    vcpu: VcpuFd,
    /// Guest memory, which must stay mapped as long as `vcpu` exists.
    memory: Memory,
    /// System registers after a reset.
    reset: kvm_sregs,
    tsc_khz: u32,
    /// Reason of the last [`VcpuExit::Failed`].
    failure: String,
    /// True if breakpoint instructions stop the vCPU ([`DebugControl::breakpoints`]).
    stops_at_breakpoints: bool,
    /// True if KVM can block interrupts during a single step.
    can_block_interrupts: bool,
    /// True if KVM emulates in software. It then fails at breakpoint instructions instead of reporting them.
    fails_at_breakpoints: bool,
}

impl KvmVcpu {
    pub(super) fn new(engine: &KvmEngine, id: u32, count: u32) -> Result<Self, KvmError> {
        let KvmEngine { kvm, vm: KvmVm { fd: vm, memory }, supported_cpuid } = engine;
        let vcpu = vm.create_vcpu(id.into()).map_err(ioctl_failed("create a vCPU"))?;
        let tsc_khz =
            vcpu.get_tsc_khz().map_err(ioctl_failed("read the frequency of the time-stamp counter"))?;
        let entries = cpuid::entries(kvm, supported_cpuid, id, count, tsc_khz);
        vcpu.set_cpuid2(&entries).map_err(ioctl_failed("set CPUID"))?;
        if kvm.check_extension_raw(KVM_CAP_ENFORCE_PV_FEATURE_CPUID.into()) > 0 {
            // Without this capability, a guest can use paravirtual features that CPUID hides.
            let enforced = super::enabled(KVM_CAP_ENFORCE_PV_FEATURE_CPUID, 1);
            vcpu.enable_cap(&enforced).map_err(ioctl_failed("hide paravirtual features"))?;
        }
        let mtrr =
            kvm_msr_entry { index: MSR_MTRR_DEF_TYPE, data: MTRR_WRITE_BACK, ..kvm_msr_entry::default() };
        let mtrr = Msrs::from_entries(&[mtrr]).map_err(|_| KvmError::Unsupported("memory types"))?;
        if vcpu.set_msrs(&mtrr).map_err(ioctl_failed("set memory types"))? != 1 {
            return Err(KvmError::Unsupported("memory types"));
        }
        let reset = vcpu.get_sregs().map_err(ioctl_failed("read registers"))?;
        Ok(Self {
            vcpu,
            memory: memory.clone(),
            reset,
            tsc_khz,
            failure: String::new(),
            stops_at_breakpoints: false,
            can_block_interrupts: debug::can_block_interrupts(kvm),
            fails_at_breakpoints: false,
        })
    }

    /// Returns the memory of the vCPU's VM.
    pub(super) const fn memory(&self) -> &Memory {
        &self.memory
    }

    fn set_initial_state(&self, entry: &KernelEntry) -> Result<(), KvmError> {
        let system = initial_state::system_registers(self.reset, entry);
        self.vcpu.set_sregs(&system).map_err(ioctl_failed("set system registers"))?;
        self.vcpu.set_fpu(&initial_state::fpu()).map_err(ioctl_failed("set the FPU state"))?;
        self.vcpu.set_regs(&initial_state::registers(entry)).map_err(ioctl_failed("set registers"))
    }

    /// Like [`Vcpu::set_entry`], but enables SSE instructions. A kernel enables them itself.
    pub(super) fn set_entry_with_sse(&self, entry: &KernelEntry) -> Result<(), KvmError> {
        self.set_initial_state(entry)?;
        let mut system = self.vcpu.get_sregs().map_err(ioctl_failed("read registers"))?;
        system.cr4 |= initial_state::CR4_OSFXSR;
        self.vcpu.set_sregs(&system).map_err(ioctl_failed("set system registers"))
    }

    /// Reads 8 bytes of code at a guest virtual address.
    fn code_at(&self, address: u64) -> Option<[u8; 8]> {
        let translation = self.vcpu.translate_gva(address).ok().filter(|found| found.valid != 0)?;
        let mut bytes = [0; 8];
        self.memory.guest().read_slice(&mut bytes, GuestAddress(translation.physical_address)).ok()?;
        Some(bytes)
    }
}

impl Vcpu for KvmVcpu {
    fn tsc(&self) -> Result<Tsc, EngineError> {
        let unsupported = KvmError::Unsupported("time-stamp counter");
        let counter = kvm_msr_entry { index: MSR_TSC, ..kvm_msr_entry::default() };
        let Ok(mut counter) = Msrs::from_entries(&[counter]) else { return Err(unsupported.into()) };
        if self.vcpu.get_msrs(&mut counter).map_err(ioctl_failed("read the time-stamp counter"))? != 1 {
            return Err(unsupported.into());
        }
        let value = counter.as_slice().first().map_or(0, |entry| entry.data);
        Ok(Tsc { frequency_hz: u64::from(self.tsc_khz) * 1000, value })
    }

    fn set_entry(&mut self, entry: &KernelEntry) -> Result<(), EngineError> {
        Ok(self.set_initial_state(entry)?)
    }

    fn run(&mut self) -> Result<VcpuExit<'_>, EngineError> {
        match self.vcpu.run() {
            Ok(KvmExit::IoIn(port, bytes)) => Ok(VcpuExit::PioRead(port, bytes)),
            Ok(KvmExit::IoOut(port, bytes)) => Ok(VcpuExit::PioWrite(port, bytes)),
            Ok(KvmExit::MmioRead(address, bytes)) => Ok(VcpuExit::MmioRead(address, bytes)),
            Ok(KvmExit::MmioWrite(address, bytes)) => Ok(VcpuExit::MmioWrite(address, bytes)),
            Ok(KvmExit::Debug(exit)) => Ok(VcpuExit::Debug(debug::event(&exit))),
            Ok(KvmExit::Intr) => Ok(VcpuExit::Interrupted),
            Ok(KvmExit::Shutdown) => Ok(VcpuExit::Reset),
            Ok(other) => {
                let (exit, failure) = host_protection::vcpu_exit(&other);
                self.failure = failure;
                Ok(exit)
            }
            Err(error) => match error.errno() {
                libc::EINTR | libc::EAGAIN => Ok(VcpuExit::Interrupted),
                number => {
                    self.failure = io::Error::from_raw_os_error(number).to_string();
                    Ok(VcpuExit::Failed)
                }
            },
        }
    }

    fn has_bus_lock(&mut self) -> bool {
        host_protection::has_bus_lock(self.vcpu.get_kvm_run())
    }

    fn failure(&mut self) -> String {
        if let Some(reason) = internal_error::describe(self.vcpu.get_kvm_run()) {
            reason.clone_into(&mut self.failure);
        }
        let rip = self.vcpu.get_regs().map_or(0, |registers| registers.rip);
        let bytes = self.code_at(rip).unwrap_or_default().map(|byte| format!("{byte:02x}")).join(" ");
        format!("a CPU cannot continue at {rip:#x} (code {bytes}): {}", self.failure)
    }

    fn failed_at_breakpoint(&mut self) -> Option<DebugEvent> {
        let rip = self.vcpu.get_regs().ok().filter(|_| self.stops_at_breakpoints)?.rip;
        let is_breakpoint = self.code_at(rip)?.starts_with(&[INT3]);
        self.fails_at_breakpoints |= is_breakpoint;
        is_breakpoint.then_some(DebugEvent::Breakpoint(rip))
    }

    fn registers(&mut self) -> Result<Registers, EngineError> {
        Ok(registers::read(&self.vcpu)?)
    }

    fn set_registers(&mut self, registers: &Registers) -> Result<(), EngineError> {
        Ok(registers::write(&self.vcpu, registers)?)
    }

    fn translate(&mut self, address: u64) -> Option<u64> {
        let translation = self.vcpu.translate_gva(address).ok()?;
        (translation.valid != 0).then_some(translation.physical_address)
    }

    fn set_debug(&mut self, control: &DebugControl) -> Result<(), EngineError> {
        debug::set(&self.vcpu, control, self.can_block_interrupts)?;
        self.stops_at_breakpoints = control.breakpoints;
        Ok(())
    }

    fn inject_exception(&mut self, event: DebugEvent) -> Result<(), EngineError> {
        if self.fails_at_breakpoints && matches!(event, DebugEvent::Breakpoint(_)) {
            // #BP is a trap, so its frame must have the address of the next instruction. But KVM has failed
            // before `int3`, so rip must be advanced.
            let mut registers = self.vcpu.get_regs().map_err(ioctl_failed("read registers"))?;
            registers.rip = registers.rip.wrapping_add(1);
            self.vcpu.set_regs(&registers).map_err(ioctl_failed("set registers"))?;
        }
        Ok(debug::inject_exception(&self.vcpu, event)?)
    }
}
