//! Makes a program bootable.
//!
//! With this crate as a dependency for the target,
//!
//! ```toml
//! [target.'cfg(target_os = "hermit")'.dependencies]
//! hermit-sys = { path = "..." }
//! ```
//!
//! and `#[cfg(target_os = "hermit")] use hermit_sys as _;` in the program, `cargo build --target
//! x86_64-unknown-hermit` makes an image that boots by itself. The crate has nothing to call: `std` finds the
//! kernel by the symbols of its ABI. Its build script builds the kernel and the network stack, hides all their
//! symbols but those, and has them linked.
#![no_std]
#![forbid(unsafe_code)]
