//! The tool chain for programs of the target `x86_64-unknown-hermit`.
//!
//! Rust's toolchain has no std for the target, and many crates do not know the target. This library installs
//! the missing parts ([`setup`]), patches the sources of other projects ([`patches`], [`crates`]), and builds
//! programs with the result ([`build`]). It has no command line: `cargo xtask` calls it, and so do the
//! developers' commands. `hermit-machines` runs the programs. Begin with [`build::guest_program`], which
//! names the steps in their order.

#![forbid(unsafe_code)]

pub mod build;
pub mod cargo;
pub mod crates;
mod digest;
pub mod package;
pub mod patches;
pub mod process;
pub mod quote;
mod rust_flags;
pub mod setup;
pub mod target;
mod toolchain;
pub mod usage;
pub mod workspace;

pub use toolchain::Toolchain;
