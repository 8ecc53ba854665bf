//! Numbers of file descriptors of the guest's process that are not in [`hermit_interface::process`], because
//! the kernel does not use them.

/// Socket to the hypervisor, which the bootstrap code closes before it enters the kernel.
pub(super) const CONTROL_FD: u32 = 129;

/// Landlock ruleset, if the host has landlock. The bootstrap code closes the descriptor once the ruleset is
/// enforced.
pub(super) const RULESET_FD: u32 = 130;

/// Minimum number of the descriptors that the hypervisor duplicates for the guest's process. It is above all
/// numbers that the guest's process uses. So dup2(2) to such a number never overwrites a duplicate that is
/// still needed.
pub(super) const MIN_COPY_FD: i32 = 160;
