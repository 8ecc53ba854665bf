//! Errors of the KVM engine.

use std::io;

use crate::engine::EngineError;

/// Why KVM cannot run a guest.
#[derive(Debug, thiserror::Error)]
pub enum KvmError {
    /// The host has no `/dev/kvm`.
    #[error("there is no /dev/kvm: this host, or the container, offers no virtualisation hardware")]
    NoDevice,
    /// The user may not open `/dev/kvm`.
    #[error(
        "no permission for /dev/kvm: join the group that owns it (`sudo usermod -aG kvm $USER`, then log in again)"
    )]
    PermissionDenied,
    /// KVM runs without VMX or SVM and emulates the guest's instructions in software.
    #[error("KVM on this host emulates the processor in software ({0})")]
    SoftwareEmulation(String),
    /// KVM lacks a capability that the engine needs.
    #[error("KVM on this host has no {0}")]
    Unsupported(&'static str),
    /// A KVM ioctl failed.
    #[error("KVM cannot {action}: {source}")]
    Ioctl {
        /// Purpose of the ioctl, for the message.
        action: &'static str,
        /// Error of the ioctl.
        source: io::Error,
    },
}

impl From<KvmError> for EngineError {
    fn from(error: KvmError) -> Self {
        Self::Backend(Box::new(error))
    }
}

/// Converts the error of an ioctl into a [`KvmError`] that names the `action`.
pub(super) fn ioctl_failed(action: &'static str) -> impl Fn(kvm_ioctls::Error) -> KvmError {
    move |error| KvmError::Ioctl { action, source: io::Error::from_raw_os_error(error.errno()) }
}
