//! Options of a machine that the command lines of `uhyve`, `cargo xtask run` and the runner share, each
//! defined once.
//!
//! [`MachineOptions`] has the options. The other modules have the types of their values, and the checks
//! against the host that are the same with uhyve and QEMU.
//!
//! ```
//! use clap::Parser;
//! use hermit_options::MachineOptions;
//!
//! #[derive(Parser)]
//! struct Arguments {
//!     #[command(flatten)]
//!     machine: MachineOptions,
//! }
//!
//! let machine = Arguments::parse_from(["run", "--cpus", "2", "-p", "8080:80"]).machine;
//! assert_eq!(machine.cpus.get(), 2);
//! assert_eq!(machine.to_arguments(), ["--cpus", "2", "--memory", "128M", "--publish", "8080:80"]);
//! ```
#![forbid(unsafe_code)]

pub mod disk;
pub mod egress;
pub mod environment;
pub mod gdb;
pub mod host_network;
mod machine;
pub mod memory;
pub mod mount;
pub mod network;
pub mod open;
pub mod ports;
pub mod rate;
pub mod root;
pub mod socket_table;

pub use machine::{MachineOptions, grace_message, timeout_message};
