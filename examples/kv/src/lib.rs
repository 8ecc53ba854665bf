//! A key-value service: the program of `docs/tutorial.md`.

#![forbid(unsafe_code)]

// Links the kernel when the target is Hermit.
use hermit_sys as _;

mod server;
mod store;

pub use server::{Service, serve, sweep};
pub use store::Store;
