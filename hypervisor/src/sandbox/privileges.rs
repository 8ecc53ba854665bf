//! Giving up privileges.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Drops all capabilities for good: no program that could be started, whoever owns it, gets any.
pub(super) fn drop_all() -> io::Result<()> {
    set_no_new_privs(true)?;
    // Others may not touch the bounding set (capabilities(7)), and have nothing to gain from it after the line above.
    if capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        empty_bounding_set()?;
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

fn empty_bounding_set() -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) => remove_capability_from_bounding_set(capability)?,
            Ok(false) => {}
            // The host knows no further ones.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
