//! C's `signal` for requests of the host to end.

pub use system::{abort, c_int};

use std::io::Error;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use system;

#[allow(non_camel_case_types)]
pub type sighandler_t = usize;

pub const SIGHUP: c_int = 1;
pub const SIGINT: c_int = 2;
pub const SIGQUIT: c_int = 3;
pub const SIGILL: c_int = 4;
pub const SIGFPE: c_int = 8;
pub const SIGSEGV: c_int = 11;
pub const SIGTERM: c_int = 15;

const SIG_GET: sighandler_t = 2;
const SIG_ERR: sighandler_t = !0;
const SIGNALS: usize = 65;

/// Signals that a request can be, in the order of preference.
const REQUESTS: [c_int; 4] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT];

/// Time between two looks for further requests. The descriptor stays readable after the first one.
const PAUSE: Duration = Duration::from_millis(50);

#[allow(clippy::declare_interior_mutable_const)]
const DEFAULT: AtomicUsize = AtomicUsize::new(0);

/// The handlers of all signals.
static HANDLERS: [AtomicUsize; SIGNALS] = [DEFAULT; SIGNALS];

/// True if the thread that waits for requests runs.
static IS_WAITING: Mutex<bool> = Mutex::new(false);

/// Sets the handler of a signal, or with `SIG_GET` none; returns the old one.
///
/// # Safety
///
/// `handler` must be one of the constants, or a function for signals.
pub unsafe fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let Some(slot) = HANDLERS.get(signal as usize) else { return SIG_ERR };
    if handler == SIG_GET {
        return slot.load(Ordering::SeqCst);
    }
    if REQUESTS.contains(&signal) && wait_for_requests().is_err() {
        return SIG_ERR;
    }
    slot.swap(handler, Ordering::SeqCst)
}

/// Starts the thread unless it runs. From now on a request does not end the machine.
fn wait_for_requests() -> Result<(), Error> {
    let mut is_waiting = IS_WAITING.lock().unwrap();
    if !*is_waiting {
        let requests = unsafe { system::shutdownfd(0) };
        if requests < 0 {
            return Err(Error::from_raw_os_error(-requests));
        }
        thread::Builder::new().name("signals".to_owned()).spawn(move || deliver(requests))?;
        *is_waiting = true;
    }
    Ok(())
}

/// Calls a handler for each request.
fn deliver(requests: c_int) {
    let mut delivered = 0;
    let mut count = [0; 8];
    while unsafe { system::read(requests, count.as_mut_ptr(), count.len()) } == 8 {
        if u64::from_ne_bytes(count) == delivered {
            thread::sleep(PAUSE);
            continue;
        }
        delivered += 1;
        let handlers = REQUESTS.iter().map(|signal| (*signal, HANDLERS[*signal as usize].load(Ordering::SeqCst)));
        if let Some((signal, handler)) = handlers.filter(|(_, handler)| *handler > SIG_GET).next() {
            let handler: extern "C" fn(c_int) = unsafe { mem::transmute(handler) };
            handler(signal);
        }
    }
}
