//! Guest debugging: `KVM_SET_GUEST_DEBUG` and `KVM_EXIT_DEBUG`.

use kvm_bindings::{
    KVM_GUESTDBG_BLOCKIRQ, KVM_GUESTDBG_ENABLE, KVM_GUESTDBG_SINGLESTEP, KVM_GUESTDBG_USE_HW_BP,
    KVM_GUESTDBG_USE_SW_BP, kvm_debug_exit_arch, kvm_guest_debug, kvm_guest_debug_arch,
};
use kvm_ioctls::{Kvm, VcpuFd};

use super::super::debug::{DR6_SINGLE_STEP, DebugControl, DebugEvent, dr6_hits};
use super::error::{KvmError, ioctl_failed};

/// KVM_CAP_SET_GUEST_DEBUG2, whose value is the set of supported flags; `kvm_ioctls` has no name for it.
const CAP_SET_GUEST_DEBUG2: std::ffi::c_ulong = 195;

/// Exception vectors (SDM volume 3, section 7.15): #DB and #BP.
const DEBUG_VECTOR: u8 = 1;
const BREAKPOINT_VECTOR: u8 = 3;

/// Returns true if KVM can block interrupts during a single step.
pub(super) fn can_block_interrupts(kvm: &Kvm) -> bool {
    let supported = u32::try_from(kvm.check_extension_raw(CAP_SET_GUEST_DEBUG2)).unwrap_or(0);
    supported & KVM_GUESTDBG_BLOCKIRQ != 0
}

/// Sets the events at which the vCPU stops.
pub(super) fn set(vcpu: &VcpuFd, control: &DebugControl, can_block: bool) -> Result<(), KvmError> {
    vcpu.set_guest_debug(&request(control, can_block)).map_err(ioctl_failed("set debug events"))
}

/// Returns the argument of `KVM_SET_GUEST_DEBUG`.
fn request(control: &DebugControl, can_block: bool) -> kvm_guest_debug {
    let has_hardware = control.hardware.iter().any(Option::is_some);
    let flags = [
        (*control != DebugControl::default(), KVM_GUESTDBG_ENABLE),
        (control.breakpoints, KVM_GUESTDBG_USE_SW_BP),
        (control.step, KVM_GUESTDBG_SINGLESTEP),
        (control.step && can_block, KVM_GUESTDBG_BLOCKIRQ),
        (has_hardware, KVM_GUESTDBG_USE_HW_BP),
    ];
    let flags = flags.iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, flag)| flag);
    let [first, second, third, fourth] = control.addresses();
    kvm_guest_debug {
        control: flags.fold(0, |all, flag| all | flag),
        pad: 0,
        arch: kvm_guest_debug_arch { debugreg: [first, second, third, fourth, 0, 0, 0, control.dr7()] },
    }
}

/// Decodes `KVM_EXIT_DEBUG`.
pub(super) fn event(exit: &kvm_debug_exit_arch) -> DebugEvent {
    if exit.exception == u32::from(BREAKPOINT_VECTOR) {
        return DebugEvent::Breakpoint(exit.pc);
    }
    DebugEvent::Trap { step: exit.dr6 & DR6_SINGLE_STEP != 0, hits: dr6_hits(exit.dr6) }
}

/// Injects the exception into the guest. KVM delivers it when the vCPU runs next.
pub(super) fn inject_exception(vcpu: &VcpuFd, event: DebugEvent) -> Result<(), KvmError> {
    let vector = match event {
        DebugEvent::Breakpoint(_) => BREAKPOINT_VECTOR,
        DebugEvent::Trap { step, hits } => {
            set_dr6(vcpu, step, hits)?;
            DEBUG_VECTOR
        }
    };
    let mut events = vcpu.get_vcpu_events().map_err(ioctl_failed("read events"))?;
    events.exception.injected = 1;
    events.exception.nr = vector;
    events.exception.has_error_code = 0;
    vcpu.set_vcpu_events(&events).map_err(ioctl_failed("raise an exception"))
}

/// Sets the causes of the debug exception in the guest's DR6.
fn set_dr6(vcpu: &VcpuFd, step: bool, hits: u8) -> Result<(), KvmError> {
    let mut registers = vcpu.get_debug_regs().map_err(ioctl_failed("read debug registers"))?;
    registers.dr6 |= u64::from(hits) | if step { DR6_SINGLE_STEP } else { 0 };
    vcpu.set_debug_regs(&registers).map_err(ioctl_failed("set debug registers"))
}

#[cfg(test)]
mod tests {
    use super::{event, request};
    use crate::engine::debug::{BreakpointAccess, DebugControl, DebugEvent, HardwareBreakpoint, WatchLength};
    use kvm_bindings::kvm_debug_exit_arch;

    #[test]
    fn default_control_disables_guest_debugging() {
        assert_eq!(request(&DebugControl::default(), true).control, 0);
    }

    #[test]
    fn single_step_blocks_interrupts_if_supported() {
        let control = DebugControl { breakpoints: true, step: true, ..DebugControl::default() };
        assert_eq!(request(&control, false).control, 0x1_0003);
        assert_eq!(request(&control, true).control, 0x11_0003);
    }

    #[test]
    fn hardware_breakpoints_map_to_debug_registers() {
        let execute = HardwareBreakpoint {
            address: 0x1001,
            length: WatchLength::Byte,
            access: BreakpointAccess::Execute,
        };
        let write = HardwareBreakpoint {
            address: 0x2000,
            length: WatchLength::Quad,
            access: BreakpointAccess::Write,
        };
        let both = HardwareBreakpoint {
            address: 0x3000,
            length: WatchLength::Double,
            access: BreakpointAccess::ReadWrite,
        };
        let control = DebugControl {
            hardware: [Some(execute), None, Some(write), Some(both)],
            ..DebugControl::default()
        };
        let request = request(&control, true);
        assert_eq!(request.control, 0x2_0001);
        assert_eq!(request.arch.debugreg, [0x1001, 0, 0x2000, 0x3000, 0, 0, 0, 0xf900_06a2]);
    }

    #[test]
    fn debug_exit_decodes_to_event() {
        let exit = |exception, dr6| kvm_debug_exit_arch { exception, pc: 7, dr6, ..Default::default() };
        assert_eq!(event(&exit(3, 0)), DebugEvent::Breakpoint(7));
        assert_eq!(event(&exit(1, 0xffff_4ff0)), DebugEvent::Trap { step: true, hits: 0 });
        assert_eq!(event(&exit(1, 0xffff_0ff5)), DebugEvent::Trap { step: false, hits: 5 });
    }
}
