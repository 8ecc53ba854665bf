//! Protection of other programs on the host from a guest: exits at bus locks, and exits of CPUs that take no
//! interrupts.
//!
//! A bus lock stops the memory accesses of all CPUs (Intel Architecture Instruction Set Extensions reference,
//! chapter "Bus lock and VM notify"). A guest can also keep a CPU in microcode, where the host cannot
//! interrupt it.

use kvm_bindings::{
    KVM_BUS_LOCK_DETECTION_EXIT, KVM_CAP_X86_BUS_LOCK_EXIT, KVM_CAP_X86_NOTIFY_VMEXIT, KVM_EXIT_NOTIFY,
    KVM_EXIT_X86_BUS_LOCK, KVM_RUN_X86_BUS_LOCK, KVM_X86_NOTIFY_VMEXIT_ENABLED, KVM_X86_NOTIFY_VMEXIT_USER,
    kvm_enable_cap, kvm_run,
};
use kvm_ioctls::{Kvm, VcpuExit as KvmExit};

use super::msrs;
use crate::engine::VcpuExit;

/// Time without an interrupt window, in cycles, after which a CPU exits. The CPU adds a minimum of its own.
/// The time is about half a millisecond, and no instruction of a benign guest takes so long.
const NOTIFY_WINDOW: u64 = 1 << 20;

/// Flags of the notify VM exit: enabled, and reported to user space.
const NOTIFY_FLAGS: u32 = KVM_X86_NOTIFY_VMEXIT_ENABLED | KVM_X86_NOTIFY_VMEXIT_USER;

/// Message about a notify VM exit.
const STUCK: &str = "the guest has kept a CPU from taking interrupts (notify VM exit)";

/// Returns true if KVM can exit at bus locks. `supported` returns KVM's value of a capability, which is 0 or
/// negative if KVM lacks it.
fn has_bus_lock_exit(supported: &impl Fn(u32) -> i32) -> bool {
    supported(KVM_CAP_X86_BUS_LOCK_EXIT).max(0) & KVM_BUS_LOCK_DETECTION_EXIT.cast_signed() != 0
}

/// Returns true if KVM can exit when a CPU takes no interrupt.
fn has_notify_exit(supported: &impl Fn(u32) -> i32) -> bool {
    supported(KVM_CAP_X86_NOTIFY_VMEXIT) > 0
}

/// Returns the capabilities to enable in the VM.
pub(super) fn of(supported: impl Fn(u32) -> i32) -> impl Iterator<Item = kvm_enable_cap> {
    let enabled =
        |cap, argument| kvm_enable_cap { cap, args: [argument, 0, 0, 0], ..kvm_enable_cap::default() };
    let bus_lock = enabled(KVM_CAP_X86_BUS_LOCK_EXIT, KVM_BUS_LOCK_DETECTION_EXIT.into());
    let notify = enabled(KVM_CAP_X86_NOTIFY_VMEXIT, NOTIFY_WINDOW << 32 | u64::from(NOTIFY_FLAGS));
    let bus_lock = has_bus_lock_exit(&supported).then_some(bus_lock);
    bus_lock.into_iter().chain(has_notify_exit(&supported).then_some(notify))
}

/// Converts an exit that kvm-ioctls does not decode. Also returns a description if it is a failure.
pub(super) fn vcpu_exit(exit: &KvmExit<'_>) -> (VcpuExit<'static>, String) {
    match exit {
        KvmExit::Unsupported(KVM_EXIT_X86_BUS_LOCK) => (VcpuExit::BusLock, String::new()),
        KvmExit::Unsupported(KVM_EXIT_NOTIFY) => (VcpuExit::Failed, STUCK.to_owned()),
        other => (VcpuExit::Failed, format!("{other:?}")),
    }
}

/// Returns true if the guest took a bus lock just before an exit for another reason. KVM then reports the
/// other reason, and sets a flag.
pub(super) fn has_bus_lock(run: &kvm_run) -> bool {
    run.exit_reason != KVM_EXIT_X86_BUS_LOCK && u32::from(run.flags) & KVM_RUN_X86_BUS_LOCK != 0
}

/// Describes these protections on this host, one line for each; returns no lines if there is no KVM.
pub(crate) fn report() -> Vec<String> {
    Kvm::new()
        .map_or_else(|_| Vec::new(), |kvm| describe(&|cap: u32| kvm.check_extension_raw(cap.into())).into())
}

fn describe(supported: &impl Fn(u32) -> i32) -> [String; 3] {
    let state = |is_supported| {
        if is_supported { "in force" } else { "not possible: the CPU or the host's KVM lacks it" }
    };
    [
        format!("slowing of bus locks on kvm: {}", state(has_bus_lock_exit(supported))),
        format!("end of guests that keep a CPU on kvm: {}", state(has_notify_exit(supported))),
        format!("refusal of unused MSRs on kvm: {}", state(msrs::can_filter(supported))),
    ]
}

#[cfg(test)]
mod tests {
    use super::{STUCK, describe, has_bus_lock, of, vcpu_exit};
    use crate::engine::VcpuExit;
    use kvm_bindings::{KVM_CAP_X86_BUS_LOCK_EXIT, KVM_CAP_X86_NOTIFY_VMEXIT, kvm_run};
    use kvm_ioctls::VcpuExit as KvmExit;

    /// Simulates a KVM with these values of the two capabilities.
    fn kvm(bus_lock: i32, notify: i32) -> impl Fn(u32) -> i32 {
        move |capability| match capability {
            KVM_CAP_X86_BUS_LOCK_EXIT => bus_lock,
            KVM_CAP_X86_NOTIFY_VMEXIT => notify,
            _ => 0,
        }
    }

    #[test]
    fn exits_are_enabled_where_kvm_has_them() {
        let enabled = |bus_lock, notify| {
            of(kvm(bus_lock, notify)).map(|cap| (cap.cap, cap.args[0])).collect::<Vec<_>>()
        };
        assert_eq!(enabled(0, 0), []);
        // An error, and a KVM that can only switch the detection off.
        assert_eq!(enabled(-1, -1), []);
        assert_eq!(enabled(1, 0), []);
        // Window of 2^20, enabled, to user space.
        let notify = (KVM_CAP_X86_NOTIFY_VMEXIT, 1 << 52 | 0b11);
        assert_eq!(enabled(3, 1), [(KVM_CAP_X86_BUS_LOCK_EXIT, 2), notify]);
        assert_eq!(enabled(0, 1), [notify]);
    }

    #[test]
    fn bus_lock_continues_and_stuck_cpu_fails() {
        // KVM_EXIT_X86_BUS_LOCK, KVM_EXIT_NOTIFY, and an exit that no kernel has.
        assert!(matches!(vcpu_exit(&KvmExit::Unsupported(33)), (VcpuExit::BusLock, _)));
        let (exit, failure) = vcpu_exit(&KvmExit::Unsupported(37));
        assert!(matches!(exit, VcpuExit::Failed) && failure == STUCK);
        let (exit, failure) = vcpu_exit(&KvmExit::Unsupported(1000));
        assert!(matches!(exit, VcpuExit::Failed) && failure.contains("1000"));
    }

    #[test]
    fn bus_lock_is_a_flag_of_exits_with_another_reason() {
        // KVM_EXIT_IO and KVM_EXIT_X86_BUS_LOCK; KVM_RUN_X86_SMM and KVM_RUN_X86_BUS_LOCK.
        for (exit_reason, flags, expected) in [(2, 1, false), (2, 2, true), (2, 3, true), (33, 2, false)] {
            let run = kvm_run { exit_reason, flags, ..kvm_run::default() };
            assert_eq!(has_bus_lock(&run), expected, "{exit_reason}, {flags}");
        }
    }

    #[test]
    fn report_says_which_exits_are_in_force() {
        let [bus_lock, notify, msrs] = describe(&kvm(2, 0));
        assert!(bus_lock.ends_with("in force"), "{bus_lock}");
        assert!(notify.contains("not possible") && msrs.contains("not possible"), "{notify}, {msrs}");
    }
}
