//! What a confined hypervisor can and cannot do, tried in processes of their own.
//!
//! Tests with guests need, in the environment variable `HERMIT_TEST_IMAGES`, a folder with images. They run on KVM, or on the
//! engine that `HERMIT_TEST_ENGINE` names. Without images or without /dev/kvm they say that they do nothing.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod guests;
#[cfg(test)]
mod probe;
#[cfg(test)]
mod roles;
