//! Requests to end: SIGTERM, SIGINT (Ctrl-C) and SIGHUP, as `docker stop`, systemd and `cargo xtask run` send
//! them.
//!
//! A program that calls none of these functions ends at once, with the exit code 128 + signal, as Linux does
//! by default. The first call of any of them declares that the program handles requests. From then on a
//! request is only reported, and the program has the grace period (`--grace`, 10 seconds by default) to
//! finish its work and exit with a code of its own. After the grace period, or upon a second request, the
//! program is killed.
//!
//! ```no_run
//! use std::thread;
//!
//! let server = thread::spawn(|| {
//!     while !hermit_sys::shutdown::requested() {
//!         // Serve the next client, for at most a second.
//!         # thread::yield_now();
//!     }
//! });
//! hermit_sys::shutdown::wait()?;
//! server.join().expect("the server does not panic");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! On Linux the functions do the same, so that the same program works on both.

#[cfg(target_os = "hermit")]
mod hermit;
#[cfg(unix)]
mod unix;

#[cfg(target_os = "hermit")]
use hermit as system;
#[cfg(unix)]
use unix as system;

use std::io;
use std::os::fd::BorrowedFd;

/// Waits until the program is requested to end. Returns at once if this has happened before.
///
/// # Errors
///
/// The system has no memory, descriptor or thread left in the first call of this module.
pub fn wait() -> io::Result<()> {
    system::wait()
}

/// Returns true if the program has been requested to end. After an error in the first call of this module, it
/// returns false.
#[must_use]
pub fn requested() -> bool {
    system::requested()
}

/// Descriptor that becomes readable once the program is requested to end, and stays readable: for `poll`, or
/// mio's `SourceFd`. Do not read from it.
///
/// # Errors
///
/// As [`wait`].
pub fn descriptor() -> io::Result<BorrowedFd<'static>> {
    system::descriptor()
}
