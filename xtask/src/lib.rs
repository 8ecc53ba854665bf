//! The commands of `cargo xtask` for users: their options, and what they do with the libraries
//! `hermit-toolchain` and `hermit-machines`.

#![forbid(unsafe_code)]

pub mod cli;
pub mod exit;
pub mod image;
mod libtest;
pub mod program;
pub mod run;
pub mod runner;
pub mod temporary;
