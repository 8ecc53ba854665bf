//! Signals that end the process at once. The process still writes the report of the run.
#![expect(unsafe_code, reason = "the action of a signal handler may only make async-signal-safe calls")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGABRT;
use signal_hook::low_level;

use crate::report;

/// Installs a handler for `signal` that exits the process with `code` if `is_enabled` is set when the signal
/// arrives.
///
/// # Errors
///
/// The host refuses the handler.
pub(crate) fn exit_on(signal: i32, code: u8, is_enabled: Arc<AtomicBool>) -> io::Result<()> {
    let action = move || {
        if is_enabled.load(Ordering::Relaxed) {
            report::write_end_at_once(code);
            low_level::exit(code.into());
        }
    };
    // SAFETY: an action must be async-signal-safe (signal-safety(7)), and must not panic. This one loads an
    // atomic variable; `write_end_at_once` reads a `OnceLock`, which is an atomic load, compares integers and
    // calls write(2) with a text that was formatted before; `exit` is _exit(2). The action does not drop the
    // `Arc`.
    unsafe { low_level::register(signal, action) }.map(drop)
}

/// Makes SIGABRT, which abort(3) raises, write the report before it ends the process.
///
/// # Errors
///
/// The host refuses the handler.
pub(crate) fn report_abort() -> io::Result<()> {
    let action = || {
        report::write_end_at_once(report::ABORTED);
        // Fails only for signals without a default action.
        let _: io::Result<()> = low_level::emulate_default_handler(SIGABRT);
    };
    // SAFETY: an action must be async-signal-safe (signal-safety(7)), and must not panic. `write_end_at_once`
    // is, as in `exit_on`, and signal-hook documents that `emulate_default_handler` is.
    unsafe { low_level::register(SIGABRT, action) }.map(drop)
}
