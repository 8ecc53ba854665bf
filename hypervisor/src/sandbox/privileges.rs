//! Privileges: capabilities and no-new-privs; access of other processes to this one.

use std::io;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Sets no-new-privs, so that the execution of a set-user-ID program, or of a program with file capabilities,
/// gives no privileges. Also empties the bounding and ambient capability sets, from which execution could
/// give capabilities.
pub(super) fn forbid_new() -> io::Result<()> {
    set_no_new_privs(true)?;
    // Changing the bounding set requires CAP_SETPCAP (capabilities(7)). Without it, no-new-privs makes the
    // set irrelevant.
    if capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        empty_bounding_set()?;
    }
    Ok(clear_ambient_capability_set()?)
}

/// Drops all capabilities except `kept`. The process must have these.
pub(super) fn keep(kept: CapabilitySet) -> io::Result<()> {
    let inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?)
}

/// Returns the limit for the size of core dumps in bytes (RLIMIT_CORE): 1, because with 0 the host may still
/// pipe a core dump to a program (core(5)).
pub(crate) fn core_limit() -> u64 {
    getrlimit(Resource::Core).maximum.unwrap_or(u64::MAX).min(1)
}

/// Maximum number of descriptors in a jail without mounts and sockets. When the limit is set, all descriptors
/// are already open, except those of a debugger's connection.
const MAX_DESCRIPTORS: u64 = 512;

/// Bounds the number of open descriptors in a jail. With `opens_more`, the limit stays as it is: each file of
/// a mount that the guest opens takes a descriptor, and each of its connections if they are sockets of this
/// process.
pub(super) fn limit_descriptors(opens_more: bool) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = if opens_more { limit } else { limit.map(|limit| limit.min(MAX_DESCRIPTORS)) };
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit })?)
}

/// Forbids this process to start processes or threads (RLIMIT_NPROC).
pub(super) fn forbid_processes() -> io::Result<()> {
    Ok(setrlimit(Resource::Nproc, Rlimit { current: Some(0), maximum: Some(0) })?)
}

/// Disables core dumps of this process. Denies other processes of the user access to its memory and its open
/// files (`PR_SET_DUMPABLE`), such as the file of guest memory.
pub(super) fn hide() -> io::Result<()> {
    let limit = Some(core_limit());
    setrlimit(Resource::Core, Rlimit { current: limit, maximum: limit })?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn empty_bounding_set() -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The kernel has no capabilities with this number or larger numbers.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
