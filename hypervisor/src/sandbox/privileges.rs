//! Privileges: capabilities and no-new-privs; access of other processes to this one.

use std::io;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Sets no-new-privs, so that executing a set-user-ID program or one with file capabilities gives no
/// privileges, and drops all capabilities that execution could give.
pub(super) fn forbid_new() -> io::Result<()> {
    set_no_new_privs(true)?;
    // Changing the bounding set requires CAP_SETPCAP (capabilities(7)). Without it, no-new-privs makes the
    // set irrelevant.
    if capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        empty_bounding_set()?;
    }
    Ok(clear_ambient_capability_set()?)
}

/// Drops all capabilities but `kept`, which the process has anyway.
pub(super) fn keep(kept: CapabilitySet) -> io::Result<()> {
    let inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?)
}

/// Maximum size of a core dump in bytes: 1, since 0 does not keep the host from piping it to a program
/// (core(5)).
pub(crate) fn core_limit() -> u64 {
    getrlimit(Resource::Core).maximum.unwrap_or(u64::MAX).min(1)
}

/// Maximum number of descriptors in a jail without mounts and sockets. By then all descriptors are open,
/// except those of a debugger's connection.
const MAX_DESCRIPTORS: u64 = 512;

/// Bounds the number of open descriptors in a jail: each file that the guest opens takes one, and each
/// connection if it is a socket of this process.
pub(super) fn limit_descriptors(opens_more: bool) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = if opens_more { limit } else { limit.map(|limit| limit.min(MAX_DESCRIPTORS)) };
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit })?)
}

/// Forbids this process's user to start further processes or threads.
pub(super) fn forbid_processes() -> io::Result<()> {
    Ok(setrlimit(Resource::Nproc, Rlimit { current: Some(0), maximum: Some(0) })?)
}

/// Makes this process write no core dump, and denies other processes of the user access to its memory and
/// open files (`PR_SET_DUMPABLE`): guest memory is one of them.
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
            // The kernel knows no capability of this number or above.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
