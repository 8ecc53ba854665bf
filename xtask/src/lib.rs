//! The commands of `cargo xtask` for users, and the modules on which the developers' commands in `xtask-dev`
//! are built.

#![forbid(unsafe_code)]

pub mod build;
pub mod cargo;
pub mod cli;
pub mod crates;
mod debug_info;
mod digest;
pub mod exit;
pub mod image;
mod libtest;
pub mod network;
mod package;
pub mod patches;
pub mod process;
pub mod program;
pub mod qemu;
mod quote;
pub mod run;
pub mod runner;
mod rust_flags;
pub mod setup;
pub mod signals;
pub mod target;
pub mod temporary;
pub mod toolchain;
pub mod uhyve;
pub mod usage;
pub mod user_network;
mod virtiofsd;
pub mod workspace;

pub use virtiofsd::PROGRAM as VIRTIOFSD;
