//! Serves an axum router over HTTP/1.1 with hyper, on threads that wait for sockets with mio.
//!
//! tokio's sockets do not support the target `x86_64-unknown-hermit`, so each thread polls one connection's future at a
//! time.

#![forbid(unsafe_code)]

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod executor;
mod server;
mod stream;

pub use server::{Server, listen};
