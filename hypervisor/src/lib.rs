//! A minimal, confined hypervisor for hermit images.
//!
//! A machine is made in steps, each a module, and each step takes what the one before it made:
//!
//! | module | makes |
//! | --- | --- |
//! | [`config`] | what the user wants, in types that cannot hold a bad value |
//! | [`memory`] | the machine's memory |
//! | [`image`] | a checked image from a file |
//! | [`engine`] | what runs processors: KVM, or a process without it |
//! | [`devices`], [`board`] | what the guest sees besides processors and memory; which of it a machine has, and where |
//! | [`network`] | what is behind a network device |
//! | [`boot`] | an image in memory with everything that its kernel must know |
//! | [`sandbox`] | what a guest that takes over the hypervisor cannot do |
//! | [`control`] | processors' threads, which run, pause and end |
//! | [`gdb`] | a server for gdb, if one is wanted |
//! | [`vm`] | all of it together: configured, loaded, running |
//!
//! [`command`] is what the binary does: it reads the command line ([`cli`]) and waits for the end.
//!
//! A guest is not trusted: whatever it does, the answer is an error to the guest or the end of the machine.

pub mod board;
pub mod boot;
mod check;
mod choice;
pub mod cli;
pub mod command;
pub mod config;
pub mod control;
pub mod devices;
pub mod engine;
pub mod gdb;
pub mod image;
mod log;
pub mod machine;
pub mod memory;
pub mod network;
pub mod sandbox;
pub mod signals;
pub mod stats;
pub mod vm;
