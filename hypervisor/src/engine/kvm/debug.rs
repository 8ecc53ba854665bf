//! Debugging a guest.

use kvm_bindings::{
    KVM_GUESTDBG_BLOCKIRQ, KVM_GUESTDBG_ENABLE, KVM_GUESTDBG_SINGLESTEP, KVM_GUESTDBG_USE_HW_BP,
    KVM_GUESTDBG_USE_SW_BP, kvm_debug_exit_arch, kvm_guest_debug, kvm_guest_debug_arch,
};
use kvm_ioctls::{Kvm, VcpuFd};

use super::super::debug::{DebugControl, DebugEvent, STEPPED, hits};
use super::{EngineError, failed};

/// Which flags KVM knows for debugging (KVM_CAP_SET_GUEST_DEBUG2, which `kvm_ioctls` has no name for).
const KNOWN_FLAGS: std::ffi::c_ulong = 195;

/// Vectors of the exceptions (SDM volume 3, section 7.15).
const DEBUG_EXCEPTION: u8 = 1;
const BREAKPOINT_EXCEPTION: u8 = 3;

/// Whether interrupts can wait while the guest steps.
pub(super) fn can_block_interrupts(kvm: &Kvm) -> bool {
    let known = u32::try_from(kvm.check_extension_raw(KNOWN_FLAGS)).unwrap_or(0);
    known & KVM_GUESTDBG_BLOCKIRQ != 0
}

/// Has the processor stop at these things.
pub(super) fn set(vcpu: &VcpuFd, control: &DebugControl, can_block: bool) -> Result<(), EngineError> {
    vcpu.set_guest_debug(&request(control, can_block)).map_err(failed("debug the guest"))
}

/// What KVM is to be asked for.
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
        arch: kvm_guest_debug_arch { debugreg: [first, second, third, fourth, 0, 0, 0, control.enabled()] },
    }
}

/// What has happened.
pub(super) fn event(exit: &kvm_debug_exit_arch) -> DebugEvent {
    if exit.exception == u32::from(BREAKPOINT_EXCEPTION) {
        return DebugEvent::Breakpoint(exit.pc);
    }
    DebugEvent::Trap { step: exit.dr6 & STEPPED != 0, hits: hits(exit.dr6) }
}

/// Has the guest get the exception when the processor runs on.
pub(super) fn give_back(vcpu: &VcpuFd, event: DebugEvent) -> Result<(), EngineError> {
    let vector = match event {
        DebugEvent::Breakpoint(_) => BREAKPOINT_EXCEPTION,
        DebugEvent::Trap { step, hits } => {
            say_why(vcpu, step, hits)?;
            DEBUG_EXCEPTION
        }
    };
    let mut events = vcpu.get_vcpu_events().map_err(failed("read events"))?;
    events.exception.injected = 1;
    events.exception.nr = vector;
    events.exception.has_error_code = 0;
    vcpu.set_vcpu_events(&events).map_err(failed("raise an exception"))
}

/// Fills the guest's debug register 6.
fn say_why(vcpu: &VcpuFd, step: bool, hits: u8) -> Result<(), EngineError> {
    let mut registers = vcpu.get_debug_regs().map_err(failed("read debug registers"))?;
    registers.dr6 |= u64::from(hits) | if step { STEPPED } else { 0 };
    vcpu.set_debug_regs(&registers).map_err(failed("set debug registers"))
}

#[cfg(test)]
mod tests {
    use super::{event, request};
    use crate::engine::debug::{Access, DebugControl, DebugEvent, HardwareBreakpoint, WatchLength};
    use kvm_bindings::kvm_debug_exit_arch;

    #[test]
    fn nothing_to_stop_at_turns_debugging_off() {
        assert_eq!(request(&DebugControl::default(), true).control, 0);
    }

    #[test]
    fn interrupts_wait_for_a_step_where_they_can() {
        let control = DebugControl { breakpoints: true, step: true, ..DebugControl::default() };
        assert_eq!(request(&control, false).control, 0x1_0003);
        assert_eq!(request(&control, true).control, 0x11_0003);
    }

    #[test]
    fn addresses_are_in_their_registers() {
        let execute =
            HardwareBreakpoint { address: 0x1001, length: WatchLength::Byte, access: Access::Execute };
        let write = HardwareBreakpoint { address: 0x2000, length: WatchLength::Quad, access: Access::Write };
        let both =
            HardwareBreakpoint { address: 0x3000, length: WatchLength::Double, access: Access::ReadWrite };
        let control = DebugControl {
            hardware: [Some(execute), None, Some(write), Some(both)],
            ..DebugControl::default()
        };
        let request = request(&control, true);
        assert_eq!(request.control, 0x2_0001);
        assert_eq!(request.arch.debugreg, [0x1001, 0, 0x2000, 0x3000, 0, 0, 0, 0xf900_06a2]);
    }

    #[test]
    fn exceptions_become_events() {
        let exit = |exception, dr6| kvm_debug_exit_arch { exception, pc: 7, dr6, ..Default::default() };
        assert_eq!(event(&exit(3, 0)), DebugEvent::Breakpoint(7));
        assert_eq!(event(&exit(1, 0xffff_4ff0)), DebugEvent::Trap { step: true, hits: 0 });
        assert_eq!(event(&exit(1, 0xffff_0ff5)), DebugEvent::Trap { step: false, hits: 5 });
    }
}
