//! Register access with KVM's ioctls.

use std::array;

use kvm_bindings::{kvm_fpu, kvm_regs, kvm_sregs};
use kvm_ioctls::VcpuFd;

use super::super::debug::{FpuState, Registers};
use super::error::{KvmError, ioctl_failed};

/// Reads all registers.
pub(super) fn read(vcpu: &VcpuFd) -> Result<Registers, KvmError> {
    let registers = vcpu.get_regs().map_err(ioctl_failed("read registers"))?;
    let system = vcpu.get_sregs().map_err(ioctl_failed("read system registers"))?;
    let fpu = vcpu.get_fpu().map_err(ioctl_failed("read the FPU state"))?;
    Ok(Registers {
        general: general(&registers),
        rip: registers.rip,
        rflags: registers.rflags,
        selectors: [system.cs, system.ss, system.ds, system.es, system.fs, system.gs]
            .map(|segment| segment.selector),
        fs_base: system.fs.base,
        gs_base: system.gs.base,
        fpu: from_fpu(&fpu),
    })
}

/// Writes only the groups of registers that differ, because KVM_SET_SREGS and KVM_SET_FPU have side effects.
pub(super) fn write(vcpu: &VcpuFd, wanted: &Registers) -> Result<(), KvmError> {
    let current = read(vcpu)?;
    vcpu.set_regs(&to_regs(wanted)).map_err(ioctl_failed("set registers"))?;
    if (current.fs_base, current.gs_base) != (wanted.fs_base, wanted.gs_base) {
        let mut system: kvm_sregs = vcpu.get_sregs().map_err(ioctl_failed("read system registers"))?;
        system.fs.base = wanted.fs_base;
        system.gs.base = wanted.gs_base;
        vcpu.set_sregs(&system).map_err(ioctl_failed("set system registers"))?;
    }
    if current.fpu != wanted.fpu {
        let fpu = to_fpu(&wanted.fpu);
        vcpu.set_fpu(&fpu).map_err(ioctl_failed("set the FPU state"))?;
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
    let Registers { rip, rflags, .. } = *from;
    kvm_regs { rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags }
}

fn from_fpu(from: &kvm_fpu) -> FpuState {
    FpuState {
        st: from.fpr.map(|register| array::from_fn(|byte| register.get(byte).copied().unwrap_or(0))),
        fcw: from.fcw,
        fsw: from.fsw,
        ftw: from.ftwx,
        fop: from.last_opcode,
        fip: from.last_ip,
        fdp: from.last_dp,
        xmm: from.xmm.map(u128::from_le_bytes),
        mxcsr: from.mxcsr,
    }
}

fn to_fpu(from: &FpuState) -> kvm_fpu {
    kvm_fpu {
        fpr: from.st.map(|register| array::from_fn(|byte| register.get(byte).copied().unwrap_or(0))),
        fcw: from.fcw,
        fsw: from.fsw,
        ftwx: from.ftw,
        last_opcode: from.fop,
        last_ip: from.fip,
        last_dp: from.fdp,
        xmm: from.xmm.map(u128::to_le_bytes),
        mxcsr: from.mxcsr,
        ..kvm_fpu::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{from_fpu, general, to_fpu, to_regs};
    use crate::engine::debug::{FpuState, Registers};
    use std::array;

    #[test]
    fn general_registers_round_trip() {
        let registers =
            Registers { general: array::from_fn(|n| n as u64 + 1), rip: 17, ..Registers::default() };
        let kvm = to_regs(&registers);
        assert_eq!((kvm.rax, kvm.rbx, kvm.rsp, kvm.r15, kvm.rip), (1, 2, 8, 16, 17));
        assert_eq!(general(&kvm), registers.general);
    }

    #[test]
    fn fpu_state_round_trips() {
        let state = FpuState {
            st: array::from_fn(|n| array::from_fn(|byte| u8::try_from(n * 10 + byte).unwrap())),
            fcw: 0x37f,
            fsw: 1,
            ftw: 0b1010,
            fop: 2,
            fip: 3,
            fdp: 4,
            xmm: array::from_fn(|n| u128::MAX / (n as u128 + 1)),
            mxcsr: 0x1f80,
        };
        assert_eq!(from_fpu(&to_fpu(&state)), state);
    }
}
