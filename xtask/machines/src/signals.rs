//! Signals that ask this process to end, while it runs a guest in QEMU or other programs.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Base of the exit codes for signals, as in a shell: the exit code is the base plus the signal's number.
const EXIT_BASE: u8 = 128;

/// Number of the latest signal, or 0.
static SIGNAL: AtomicU8 = AtomicU8::new(0);

/// Number of signals so far.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Installs handlers of SIGHUP, SIGINT (Ctrl-C) and SIGTERM. These signals are then recorded for
/// [`exit_code`] and no longer end this process.
///
/// # Errors
///
/// Fails if the host refuses a handler or a thread.
pub fn record() -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            SIGNAL.store(u8::try_from(signal).unwrap_or_default(), Ordering::Relaxed);
            COUNT.fetch_add(1, Ordering::Release);
        }
    })?;
    Ok(())
}

/// Returns the number of signals that have been recorded.
pub fn count() -> usize {
    COUNT.load(Ordering::Acquire)
}

/// Returns the exit code for the latest recorded signal: 128 plus the signal's number. Returns `None` if no
/// signal has been recorded.
pub fn exit_code() -> Option<u8> {
    (count() > 0).then(|| EXIT_BASE.saturating_add(SIGNAL.load(Ordering::Relaxed)))
}
