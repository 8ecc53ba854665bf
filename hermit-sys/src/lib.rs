//! The only dependency that a program needs to become an image that boots by itself.
//!
//! Add this crate to the dependencies for the target:
//!
//! ```toml
//! [target.'cfg(target_os = "hermit")'.dependencies]
//! hermit-sys = { path = "..." }
//! ```
//!
//! Link it with a `use`:
//!
//! ```
//! #[cfg(target_os = "hermit")]
//! use hermit_sys as _;
//!
//! fn main() {
//!     println!("Hello from {}", std::env::consts::OS);
//! }
//! ```
//!
//! Then `cargo build --target x86_64-unknown-hermit` makes a bootable image. For other targets, this crate
//! builds no kernel.
//!
//! `std` finds the kernel by the symbols of its ABI (`hermit-abi`). This crate has the functions that `std`
//! lacks: [`shutdown`], the host's requests to end. [`shutdown`] works on Linux, too, if the crate is a
//! dependency for all targets.
//!
//! The build script builds the kernel and the network stack, makes all their symbols local except those of
//! the ABI, and links both into the program. The features `fifo` and `round-robin` select the scheduling
//! policy, `bump` and `tlsf` the allocator of the heap.

#[cfg(any(target_os = "hermit", unix))]
pub mod shutdown;
