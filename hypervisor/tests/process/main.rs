//! Tests of the process engine, with guests of a few instructions.

#[cfg(test)]
#[path = "../common/access.rs"]
mod access;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod debugger;
#[cfg(test)]
mod echo;
#[cfg(test)]
mod escapes;
#[cfg(test)]
#[path = "../common/files/mod.rs"]
mod files;
#[cfg(test)]
mod guest;
#[cfg(test)]
mod host;
#[cfg(test)]
mod hypercalls;
#[cfg(test)]
#[path = "../common/image.rs"]
mod image;
#[cfg(test)]
mod jail;
#[cfg(test)]
#[path = "../common/jail.rs"]
mod jail_checks;
#[cfg(test)]
mod landlock;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod mounts;
#[cfg(test)]
mod network;
#[cfg(test)]
mod procfs;
#[cfg(test)]
#[path = "../common/program.rs"]
mod program;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
#[path = "../common/stalled.rs"]
mod stalled;
#[cfg(test)]
mod start;
#[cfg(test)]
#[path = "../common/virtio/mod.rs"]
mod virtio;
#[cfg(test)]
mod virtqueues;
