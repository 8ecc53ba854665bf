//! Details of `KVM_EXIT_INTERNAL_ERROR`.
#![expect(unsafe_code, reason = "the details are in a union")]

use kvm_bindings::{
    KVM_EXIT_INTERNAL_ERROR, KVM_INTERNAL_ERROR_DELIVERY_EV, KVM_INTERNAL_ERROR_EMULATION,
    KVM_INTERNAL_ERROR_SIMUL_EX, kvm_run,
};

/// Describes the internal error if the last exit was one; returns `None` otherwise.
pub(super) fn describe(run: &kvm_run) -> Option<&'static str> {
    if run.exit_reason != KVM_EXIT_INTERNAL_ERROR {
        return None;
    }
    // SAFETY: every field of the union consists of integers, for which all bit patterns are valid, and the
    // whole page of `kvm_run` is mapped and initialised by KVM. The exit reason, checked above, says that
    // `internal` is the field in use.
    let error = unsafe { run.__bindgen_anon_1.internal.suberror };
    Some(match error {
        KVM_INTERNAL_ERROR_EMULATION => "KVM cannot emulate the instruction",
        KVM_INTERNAL_ERROR_SIMUL_EX => "an exception came while another was delivered",
        KVM_INTERNAL_ERROR_DELIVERY_EV => "an event could not be delivered",
        _ => "KVM has failed",
    })
}
