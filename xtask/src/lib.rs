//! The commands of `cargo xtask` for users, and the modules on which the developers' commands in `xtask-dev`
//! are built.

#![forbid(unsafe_code)]

pub mod cli;
mod debug_info;
pub mod exit;
pub mod image;
mod libtest;
pub mod network;
pub mod program;
pub mod qemu;
pub mod run;
pub mod runner;
pub mod signals;
pub mod temporary;
pub mod uhyve;
pub mod user_network;
mod virtiofsd;

pub use virtiofsd::PROGRAM as VIRTIOFSD;
