//! Tests with hostile guests. Whatever a guest does, uhyve must exit by itself with a message, stay within
//! its memory limit, and change only files of the guest.
//!
//! The guests run on KVM. Without /dev/kvm, the tests print that they are skipped and pass.

mod guest;
mod host;
#[path = "../common/image.rs"]
mod image;
#[path = "../common/virtio/mod.rs"]
mod virtio;

#[cfg(test)]
#[path = "../common/access.rs"]
mod access;
#[cfg(test)]
mod accesses;
#[cfg(test)]
mod deception;
#[cfg(test)]
mod disks;
#[cfg(test)]
#[path = "../common/files/mod.rs"]
mod files;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod mounts;
#[cfg(test)]
#[path = "../common/program.rs"]
mod program;
#[cfg(test)]
#[path = "../common/stalled.rs"]
mod stalled;
#[cfg(test)]
mod vcpus;
#[cfg(test)]
mod virtqueues;
