//! Signals that ask this process to end, while it runs a guest in QEMU or other programs.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Base of the exit codes for signals, as of a shell: it is added to the signal's number.
const EXIT_BASE: u8 = 128;

/// Number of the latest signal, or 0.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Has SIGHUP, SIGINT (Ctrl-C) and SIGTERM be recorded for [`exit_code`], in place of ending this process.
///
/// # Errors
///
/// The host refuses a handler.
pub fn record() -> io::Result<()> {
    for (signal, number) in [(SIGHUP, 1), (SIGINT, 2), (SIGTERM, 15)] {
        flag::register_usize(signal, Arc::clone(&SIGNAL), number)?;
    }
    Ok(())
}

/// Returns the exit code for the signal that has been recorded, if one has: 128 and its number.
pub fn exit_code() -> Option<u8> {
    let number = SIGNAL.load(Ordering::Relaxed);
    (number != 0).then(|| EXIT_BASE.saturating_add(u8::try_from(number).unwrap_or(u8::MAX)))
}
