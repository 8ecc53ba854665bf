//! The time limit while a machine is loaded: arguments, image and initramfs are read, and helper programs
//! start.
//!
//! The main thread enforces the limit only once the machine runs. During loading it is busy, and there must
//! be no second thread, because the sandbox can confine only a process with one thread. So a timer of the
//! host enforces the limit with signals.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigEvent, SigSet, SigevNotify, Signal};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use signal_hook::low_level;
use vmm_sys_util::signal::register_signal_handler;

use crate::host::log;
use crate::report::{self, TIMED_OUT};

/// Time from the first signal, whose handler reports the limit, to the second. The second also ends a process
/// in a system call that cannot be interrupted, such as a read from a server that does not answer.
const LAST: Duration = Duration::from_secs(1);

/// Minimum time of a timer, because 0 would disable it.
const MIN_DELAY: Duration = Duration::from_nanos(1);

/// Maximum time of a timer: 34 years. It bounds the value, because the host's time type is signed.
const MAX_DELAY: Duration = Duration::from_secs(1 << 30);

/// Message of the handler.
static MESSAGE: OnceLock<String> = OnceLock::new();

/// The report is not in place yet, so the handler leaves the end to the main thread.
const EARLY: u8 = 0;
/// The limit was reached while the state was [`EARLY`].
const EXPIRED: u8 = 1;
/// The report, if one is wanted, is in place.
const ARMED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(EARLY);

/// Timers that end this process, until they are dropped.
#[derive(Debug)]
pub(crate) struct Alarm(#[expect(dead_code, reason = "they are deleted with this object")] [Timer; 2]);

impl Alarm {
    /// Starts timers that end this process with [`TIMED_OUT`], unless this object is dropped before `start`
    /// plus `limit`.
    ///
    /// # Errors
    ///
    /// The host has no timers left.
    pub(crate) fn new(limit: Duration, start: Instant) -> io::Result<Self> {
        let message =
            || format!("uhyve: error: the machine was not loaded within {} s\n", limit.as_secs_f64());
        MESSAGE.get_or_init(message);
        register_signal_handler(libc::SIGALRM, handle).map_err(io::Error::from)?;
        // The parent may have blocked it.
        SigSet::from_iter([Signal::SIGALRM]).thread_unblock()?;
        let left = limit.saturating_sub(start.elapsed()).clamp(MIN_DELAY, MAX_DELAY);
        Ok(Self([timer(Signal::SIGALRM, left)?, timer(Signal::SIGKILL, left.saturating_add(LAST))?]))
    }
}

/// The report is in place: from now on, the handler ends the process by itself. If the limit was already
/// reached, ends the process now.
pub(crate) fn arm() {
    if STATE.swap(ARMED, Ordering::SeqCst) == EXPIRED {
        end();
    }
}

fn timer(signal: Signal, after: Duration) -> nix::Result<Timer> {
    let event = SigEvent::new(SigevNotify::SigevSignal { signal, si_value: 0 });
    let mut timer = Timer::new(ClockId::CLOCK_MONOTONIC, event)?;
    timer.set(Expiration::OneShot(after.into()), TimerSetTimeFlags::empty())?;
    Ok(timer)
}

/// Handler of SIGALRM. It is async-signal-safe (signal-safety(7)), as [`end`] is.
extern "C" fn handle(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if STATE.compare_exchange(EARLY, EXPIRED, Ordering::SeqCst, Ordering::SeqCst) == Err(ARMED) {
        end();
    }
}

/// Reports that the limit was reached, and exits, by write(2) and _exit(2).
fn end() -> ! {
    let message = MESSAGE.get().map_or("", String::as_str);
    // Fails if standard error is closed, or if the disk with the file of `--log-file` is full.
    let _: rustix::io::Result<usize> = rustix::io::write(log::descriptor(), message.as_bytes());
    report::write_end_at_once(TIMED_OUT);
    low_level::exit(TIMED_OUT.into())
}
