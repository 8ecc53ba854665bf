//! Requests to end on Unix: a thread receives the signals.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// State shared by the thread and the functions.
struct State {
    is_requested: AtomicBool,
    /// Held while the state changes.
    lock: Mutex<()>,
    changed: Condvar,
    /// Readable once the program is requested to end.
    readable: UnixStream,
}

static STATE: OnceLock<State> = OnceLock::new();

/// Serialises the first calls.
static STARTING: Mutex<()> = Mutex::new(());

fn state() -> io::Result<&'static State> {
    let _guard = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(state) = STATE.get() {
        return Ok(state);
    }
    let (readable, writable) = UnixStream::pair()?;
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let state = State {
        is_requested: AtomicBool::new(false),
        lock: Mutex::new(()),
        changed: Condvar::new(),
        readable,
    };
    let state = STATE.get_or_init(|| state);
    thread::Builder::new().name("shutdown".to_owned()).spawn(move || receive(signals, state, &writable))?;
    Ok(state)
}

/// Reports the first signal. The second one ends the program as if it had no handler.
fn receive(mut signals: Signals, state: &State, mut writable: &UnixStream) {
    for signal in signals.forever() {
        if state.is_requested.load(Ordering::Acquire) {
            // Fails only for signals without a default action. The signals received here have one.
            let _: io::Result<()> = emulate_default_handler(signal);
        }
        let guard = state.lock.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_requested.store(true, Ordering::Release);
        // The socket is open and empty, so the write neither fails nor blocks.
        let _: io::Result<()> = writable.write_all(&[1]);
        state.changed.notify_all();
        drop(guard);
    }
}

pub(super) fn wait() -> io::Result<()> {
    let state = state()?;
    let mut guard = state.lock.lock().unwrap_or_else(PoisonError::into_inner);
    while !state.is_requested.load(Ordering::Acquire) {
        guard = state.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    drop(guard);
    Ok(())
}

pub(super) fn requested() -> bool {
    state().is_ok_and(|state| state.is_requested.load(Ordering::Acquire))
}

pub(super) fn descriptor() -> io::Result<BorrowedFd<'static>> {
    Ok(state()?.readable.as_fd())
}

#[cfg(test)]
mod tests {
    use super::{descriptor, requested, wait};
    use std::os::unix::net::UnixStream;
    use std::thread;

    #[test]
    fn signal_is_reported_to_all_functions() {
        assert!(!requested());
        let waiter = thread::spawn(wait);
        let readable = UnixStream::from(descriptor().unwrap().try_clone_to_owned().unwrap());
        readable.set_nonblocking(true).unwrap();
        signal_hook::low_level::raise(signal_hook::consts::SIGTERM).unwrap();
        waiter.join().unwrap().unwrap();
        assert!(requested());
        wait().unwrap();
        assert_eq!(std::io::Read::read(&mut &readable, &mut [0; 8]).unwrap(), 1);
    }
}
