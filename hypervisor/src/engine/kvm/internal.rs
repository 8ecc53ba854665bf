//! Details of what KVM calls an internal error.
#![expect(unsafe_code, reason = "they are in a union")]

use kvm_bindings::{
    KVM_EXIT_INTERNAL_ERROR, KVM_INTERNAL_ERROR_DELIVERY_EV, KVM_INTERNAL_ERROR_EMULATION,
    KVM_INTERNAL_ERROR_SIMUL_EX, kvm_run,
};

/// What the error is, if the last exit was for one.
pub(super) fn error(run: &kvm_run) -> Option<&'static str> {
    if run.exit_reason != KVM_EXIT_INTERNAL_ERROR {
        return None;
    }
    // SAFETY: all parts of the union are plain numbers, and KVM has initialised this one: so the reason says.
    let error = unsafe { run.__bindgen_anon_1.internal.suberror };
    Some(match error {
        KVM_INTERNAL_ERROR_EMULATION => "KVM cannot emulate the instruction",
        KVM_INTERNAL_ERROR_SIMUL_EX => "an exception came while another was delivered",
        KVM_INTERNAL_ERROR_DELIVERY_EV => "an event could not be delivered",
        _ => "KVM has failed",
    })
}
