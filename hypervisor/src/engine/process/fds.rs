//! Numbers of the file descriptors that the guest's process has besides those of
//! [`hermit_interface::process`].

/// Socket to the hypervisor, which the bootstrap code closes before it enters the kernel.
pub(super) const CONTROL_FD: u32 = 129;

/// Landlock ruleset, if the host has landlock. The bootstrap code closes it once it is enforced.
pub(super) const RULESET_FD: u32 = 130;

/// Lowest number of the copies that the hypervisor passes on: above all numbers that the guest's process
/// uses, so that dup2(2) to one of those never overwrites a copy that is still needed.
pub(super) const MIN_COPY_FD: i32 = 160;
