//! Events of the main thread: shutdown of the VM, SIGINT, SIGTERM and SIGHUP, and time limits.
//!
//! The main thread waits for all of them with epoll(7). A signal handler may only make async-signal-safe
//! calls, so each signal has a socket pair: its handler writes a byte to one end, and epoll reports the other
//! end as readable (the self-pipe trick). While the main thread is not waiting, for example while it loads an
//! image, the handler exits the process at once instead.

use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::signal::register_signal_handler;

use crate::report::SIGNAL_BASE;
use crate::sandbox::{exit_on, report_abort};
use crate::vcpu::manager::ignore_signal;

/// Signals that request the end of the guest.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Signals that get an empty handler, so that the disposition inherited from the parent does not matter. If
/// SIGCHLD were ignored, the kernel would reap the guest's process before uhyve reads its status. Without a
/// handler for SIGXFSZ, a write beyond the file size limit would kill this process, instead of returning an
/// error.
const NOT_INHERITED: [i32; 2] = [libc::SIGCHLD, libc::SIGXFSZ];

/// epoll data of the VM's shutdown event.
const SHUTDOWN: u64 = u64::MAX;

/// Event of the main thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MainEvent {
    /// The VM has shut down.
    Shutdown,
    /// The process has received the signal with this number.
    Signal(u8),
    /// The deadline has passed.
    Timeout,
}

/// Unblocks all signals. A process inherits the signal mask, and a parent that reads signals with signalfd(2)
/// has blocked them. With such a mask this process would not notice requests to end, and could not interrupt
/// a vCPU. Call this function before any thread is started, because threads inherit the mask, too.
///
/// # Errors
///
/// The host refuses sigprocmask(2).
pub fn unblock_all() -> io::Result<()> {
    Ok(SigSet::empty().thread_set_mask()?)
}

/// Handlers of SIGINT, SIGTERM and SIGHUP.
#[derive(Debug)]
pub struct Signals {
    epoll: Epoll,
    /// Signals with their pipes, to which the handlers write.
    pipes: Vec<(i32, UnixStream)>,
    /// True while no thread is in [`Self::wait`]. A signal then exits the process at once.
    exits_at_once: Arc<AtomicBool>,
}

impl Signals {
    /// Installs the handlers. SIGHUP stays ignored if this process has inherited that, as from nohup(1).
    ///
    /// # Errors
    ///
    /// The host cannot create sockets or an epoll instance.
    pub fn new() -> io::Result<Self> {
        for signal in NOT_INHERITED {
            register_signal_handler(signal, ignore_signal)?;
        }
        report_abort()?;
        let exits_at_once = Arc::new(AtomicBool::new(true));
        let mut signals = Self { epoll: Epoll::new()?, pipes: Vec::new(), exits_at_once };
        for signal in SIGNALS.into_iter().filter(|&signal| signal != SIGHUP || !is_ignored(signal)) {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            let code = u8::try_from(signal).map_or(u8::MAX, |number| SIGNAL_BASE.saturating_add(number));
            // Registered before the pipe, because handlers run in the order of registration, and the exit
            // must come first.
            exit_on(signal, code, Arc::clone(&signals.exits_at_once))?;
            pipe::register(signal, write)?;
            signals.watch(read.as_raw_fd(), signals.pipes.len() as u64)?;
            signals.pipes.push((signal, read));
        }
        Ok(signals)
    }

    fn watch(&self, fd: i32, data: u64) -> io::Result<()> {
        self.epoll.ctl(ControlOperation::Add, fd, EpollEvent::new(EventSet::IN, data))
    }

    /// Makes [`Self::wait`] return once `shutdown` is readable. The caller keeps the event open as long as
    /// this object exists.
    ///
    /// # Errors
    ///
    /// epoll failed.
    pub fn watch_shutdown(&self, shutdown: &EventFd) -> io::Result<()> {
        self.watch(shutdown.as_raw_fd(), SHUTDOWN)
    }

    /// Waits until the VM has shut down, a signal arrives, or the deadline has passed. Outside of this call a
    /// signal exits the process at once, so that loading a VM and draining its output can be interrupted.
    ///
    /// # Errors
    ///
    /// epoll failed.
    pub fn wait(&self, deadline: Option<Instant>) -> io::Result<MainEvent> {
        self.exits_at_once.store(false, Ordering::Relaxed);
        let event = self.wait_until(deadline);
        self.exits_at_once.store(true, Ordering::Relaxed);
        event
    }

    fn wait_until(&self, deadline: Option<Instant>) -> io::Result<MainEvent> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(MainEvent::Timeout);
            }
            if let Some(event) = self.wait_once(milliseconds(left))? {
                return Ok(event);
            }
        }
    }

    fn wait_once(&self, milliseconds: i32) -> io::Result<Option<MainEvent>> {
        let mut event = [EpollEvent::default()];
        match self.epoll.wait(milliseconds, &mut event) {
            Ok(0) => Ok(None),
            Ok(_) => Ok(self.event(event[0].data())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn event(&self, data: u64) -> Option<MainEvent> {
        if data == SHUTDOWN {
            return Some(MainEvent::Shutdown);
        }
        let (signal, mut pipe) =
            self.pipes.get(usize::try_from(data).ok()?).map(|(signal, pipe)| (*signal, pipe))?;
        pipe.read_exact(&mut [0]).ok()?;
        u8::try_from(signal).ok().map(MainEvent::Signal)
    }
}

/// Returns true if this process ignores the signal (proc(5), `SigIgn`); false if that is unknown.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 != 0)
}

/// Converts a timeout to milliseconds for epoll_wait(2), rounded up; -1 if there is no timeout.
fn milliseconds(left: Option<Duration>) -> i32 {
    left.map_or(-1, |left| i32::try_from(left.as_millis().saturating_add(1)).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::{MainEvent, Signals};
    use signal_hook::low_level::raise;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::{Duration, Instant};
    use vmm_sys_util::eventfd::EventFd;

    /// Timeout that the test waits for.
    const SHORT: Duration = Duration::from_millis(20);

    /// Timeout that no wait of the test reaches.
    const LONG: Duration = Duration::from_secs(150);

    #[test]
    fn ignored_signals_are_those_of_the_process() {
        assert!(!super::is_ignored(signal_hook::consts::SIGTERM));
        // Rust's runtime sets SIGPIPE to ignored.
        assert!(super::is_ignored(signal_hook::consts::SIGPIPE));
    }

    #[test]
    fn wait_reports_timeout_signal_and_shutdown() {
        let signals = Signals::new().unwrap();
        let shutdown = EventFd::new(0).unwrap();
        signals.watch_shutdown(&shutdown).unwrap();
        let wait = |time| signals.wait(Some(Instant::now() + time)).unwrap();
        let begin = Instant::now();
        assert_eq!(wait(SHORT), MainEvent::Timeout);
        assert!(begin.elapsed() >= SHORT);
        let exits_at_once = Arc::clone(&signals.exits_at_once);
        let later = thread::spawn(move || {
            let begin = Instant::now();
            // Wait until the thread is in `wait`: before that, the signal would exit this process.
            while exits_at_once.load(Ordering::Relaxed) {
                assert!(begin.elapsed() < LONG, "no thread waits");
                thread::yield_now();
            }
            raise(signal_hook::consts::SIGTERM).unwrap();
        });
        assert_eq!(wait(LONG), MainEvent::Signal(15));
        later.join().unwrap();
        shutdown.write(1).unwrap();
        assert_eq!(wait(LONG), MainEvent::Shutdown);
    }
}
