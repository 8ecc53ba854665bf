//! Tests of the sandbox: operations that succeed or fail in a confined process, each tried in a child
//! process.
//!
//! Tests with guests read images from the folder in the environment variable `HERMIT_TEST_IMAGES`. They run
//! on KVM, or on the engine that `HERMIT_TEST_ENGINE` names. Without images or without /dev/kvm, they print
//! that they are skipped.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod guests;
#[cfg(test)]
mod jail;
#[cfg(test)]
#[path = "../common/jail.rs"]
mod jail_checks;
#[cfg(test)]
mod probe;
#[cfg(test)]
#[path = "../common/program.rs"]
mod program;
#[cfg(test)]
mod roles;
