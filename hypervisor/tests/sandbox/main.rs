//! What a confined hypervisor can and cannot do, tried in processes of their own.
//!
//! Tests with guests need /dev/kvm and, in the environment variable `HERMIT_TEST_IMAGES`, the folder of images that are
//! built for it; else they say that they do nothing.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod guests;
#[cfg(test)]
mod probe;
#[cfg(test)]
mod roles;
