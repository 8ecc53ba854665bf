//! Registers as KVM has them.

use std::array;

use kvm_bindings::{kvm_fpu, kvm_regs, kvm_sregs};
use kvm_ioctls::VcpuFd;

use super::super::debug::{FloatingPoint, Registers};
use super::{EngineError, failed};

/// All registers.
pub(super) fn read(vcpu: &VcpuFd) -> Result<Registers, EngineError> {
    let registers = vcpu.get_regs().map_err(failed("read registers"))?;
    let system = vcpu.get_sregs().map_err(failed("read system registers"))?;
    let floating_point = vcpu.get_fpu().map_err(failed("read floating point"))?;
    Ok(Registers {
        general: general(&registers),
        instruction: registers.rip,
        flags: registers.rflags,
        selectors: [system.cs, system.ss, system.ds, system.es, system.fs, system.gs]
            .map(|segment| segment.selector),
        fs_base: system.fs.base,
        gs_base: system.gs.base,
        floating_point: from_fpu(&floating_point),
    })
}

/// Sets what differs, because setting has side effects.
pub(super) fn write(vcpu: &VcpuFd, wanted: &Registers) -> Result<(), EngineError> {
    let current = read(vcpu)?;
    vcpu.set_regs(&to_regs(wanted)).map_err(failed("set registers"))?;
    if (current.fs_base, current.gs_base) != (wanted.fs_base, wanted.gs_base) {
        let mut system: kvm_sregs = vcpu.get_sregs().map_err(failed("read system registers"))?;
        system.fs.base = wanted.fs_base;
        system.gs.base = wanted.gs_base;
        vcpu.set_sregs(&system).map_err(failed("set system registers"))?;
    }
    if current.floating_point != wanted.floating_point {
        let fpu = to_fpu(&wanted.floating_point);
        vcpu.set_fpu(&fpu).map_err(failed("set floating point"))?;
    }
    Ok(())
}

const fn general(from: &kvm_regs) -> [u64; 16] {
    [
        from.rax, from.rbx, from.rcx, from.rdx, from.rsi, from.rdi, from.rbp, from.rsp, from.r8, from.r9,
        from.r10, from.r11, from.r12, from.r13, from.r14, from.r15,
    ]
}

const fn to_regs(from: &Registers) -> kvm_regs {
    let [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15] = from.general;
    let (rip, rflags) = (from.instruction, from.flags);
    kvm_regs { rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags }
}

fn from_fpu(from: &kvm_fpu) -> FloatingPoint {
    FloatingPoint {
        stack: from.fpr.map(|register| array::from_fn(|byte| register.get(byte).copied().unwrap_or(0))),
        control: from.fcw,
        status: from.fsw,
        tags: from.ftwx,
        opcode: from.last_opcode,
        instruction: from.last_ip,
        operand: from.last_dp,
        vectors: from.xmm.map(u128::from_le_bytes),
        vector_control: from.mxcsr,
    }
}

fn to_fpu(from: &FloatingPoint) -> kvm_fpu {
    kvm_fpu {
        fpr: from.stack.map(|register| array::from_fn(|byte| register.get(byte).copied().unwrap_or(0))),
        fcw: from.control,
        fsw: from.status,
        ftwx: from.tags,
        last_opcode: from.opcode,
        last_ip: from.instruction,
        last_dp: from.operand,
        xmm: from.vectors.map(u128::to_le_bytes),
        mxcsr: from.vector_control,
        ..kvm_fpu::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{from_fpu, general, to_fpu, to_regs};
    use crate::engine::debug::{FloatingPoint, Registers};
    use std::array;

    #[test]
    fn general_registers_survive_the_way_there_and_back() {
        let registers =
            Registers { general: array::from_fn(|n| n as u64 + 1), instruction: 17, ..Registers::default() };
        let kvm = to_regs(&registers);
        assert_eq!((kvm.rax, kvm.rbx, kvm.rsp, kvm.r15, kvm.rip), (1, 2, 8, 16, 17));
        assert_eq!(general(&kvm), registers.general);
    }

    #[test]
    fn floating_point_survives_the_way_there_and_back() {
        let registers = FloatingPoint {
            stack: array::from_fn(|n| array::from_fn(|byte| u8::try_from(n * 10 + byte).unwrap())),
            control: 0x37f,
            status: 1,
            tags: 0b1010,
            opcode: 2,
            instruction: 3,
            operand: 4,
            vectors: array::from_fn(|n| u128::MAX / (n as u128 + 1)),
            vector_control: 0x1f80,
        };
        assert_eq!(from_fpu(&to_fpu(&registers)), registers);
    }
}
