//! The time limit while a machine is being loaded: arguments, image and tree are read, and its programs
//! start.
//!
//! The main thread, which waits for the end of a machine that runs, is busy meanwhile, and there is no other
//! one: the sandbox confines a process of one thread. So a timer of the host sends signals.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigEvent, SigSet, SigevNotify, Signal};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use signal_hook::low_level;
use vmm_sys_util::signal::register_signal_handler;

use crate::report::{self, TIMED_OUT};

/// Time from the signal that is reported to one that also ends a call of the host that cannot be interrupted,
/// such as a read from a server that does not answer.
const LAST: Duration = Duration::from_secs(1);

/// Minimum time of a timer: 0 would disable it.
const MIN_DELAY: Duration = Duration::from_nanos(1);

/// Maximum time of a timer, 34 years: that of the host's has a sign.
const MAX_DELAY: Duration = Duration::from_secs(1 << 30);

/// Message of the handler.
static MESSAGE: OnceLock<String> = OnceLock::new();

/// The report is not in place yet: the handler leaves the end to the main thread.
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
    /// Ends this process with [`TIMED_OUT`] unless this object is dropped within `limit` from `start` on.
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

/// Makes the handler end the process by itself from now on, because the report is in place. If the limit was
/// reached before, ends the process now.
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
    // It fails if standard error is closed.
    let _: rustix::io::Result<usize> = rustix::io::write(io::stderr(), message.as_bytes());
    report::write_end_at_once(TIMED_OUT);
    low_level::exit(TIMED_OUT.into())
}
