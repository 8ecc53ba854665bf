//! Waiting for the guest's end, for signals that end it, and for a time limit.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::signal::register_signal_handler;

use crate::control::ignore;

/// The signals by which a machine is told to end.
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// Signals that do nothing, whatever this process's parent has made of them: SIGCHLD, since nobody could wait for a guest's process if
/// it were ignored; and SIGXFSZ, so that who writes more than a limit allows gets an error.
const NOT_INHERITED: [i32; 2] = [libc::SIGCHLD, libc::SIGXFSZ];

/// What a shell adds to the number of the signal that ended a process.
const SHELL: i32 = 128;

/// Marks the machine's end among events.
const ENDED: u64 = u64::MAX;

/// What was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The machine has ended.
    Ended,
    /// The signal of this number arrived.
    Signal(u8),
    /// The time is over.
    Timeout,
}

/// Signals of this process, from when this is made on.
#[derive(Debug)]
pub struct Signals {
    epoll: Epoll,
    pipes: Vec<UnixStream>,
    /// Nobody waits: a signal ends the process at once.
    nobody_waits: Arc<AtomicBool>,
}

impl Signals {
    /// Catches the signals.
    ///
    /// # Errors
    ///
    /// If the host has no pipes.
    pub fn new() -> io::Result<Self> {
        for signal in NOT_INHERITED {
            register_signal_handler(signal, ignore)?;
        }
        let nobody_waits = Arc::new(AtomicBool::new(true));
        let mut signals = Self { epoll: Epoll::new()?, pipes: Vec::new(), nobody_waits };
        for (index, signal) in (0..).zip(SIGNALS) {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            flag::register_conditional_shutdown(signal, SHELL + signal, Arc::clone(&signals.nobody_waits))?;
            pipe::register(signal, write)?;
            signals.watch(read.as_raw_fd(), index)?;
            signals.pipes.push(read);
        }
        Ok(signals)
    }

    fn watch(&self, fd: i32, data: u64) -> io::Result<()> {
        self.epoll.ctl(ControlOperation::Add, fd, EpollEvent::new(EventSet::IN, data))
    }

    /// Waits until `ended` is readable, a signal arrives, or a moment has come. Before and after, a signal ends this
    /// process at once: whoever loads a machine, or waits for its output to be taken, can be stopped.
    ///
    /// # Errors
    ///
    /// If the host cannot wait.
    pub fn wait(&self, ended: &EventFd, deadline: Option<Instant>) -> io::Result<Event> {
        self.watch(ended.as_raw_fd(), ENDED)?;
        self.nobody_waits.store(false, Ordering::Relaxed);
        let event = self.wait_until(deadline);
        self.nobody_waits.store(true, Ordering::Relaxed);
        event
    }

    fn wait_until(&self, deadline: Option<Instant>) -> io::Result<Event> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Event::Timeout);
            }
            if let Some(event) = self.wait_once(milliseconds(left))? {
                return Ok(event);
            }
        }
    }

    fn wait_once(&self, milliseconds: i32) -> io::Result<Option<Event>> {
        let mut event = [EpollEvent::default()];
        match self.epoll.wait(milliseconds, &mut event) {
            Ok(0) => Ok(None),
            Ok(_) => Ok(self.event(event[0].data())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn event(&self, data: u64) -> Option<Event> {
        if data == ENDED {
            return Some(Event::Ended);
        }
        let index = usize::try_from(data).ok()?;
        self.pipes.get(index)?.read_exact(&mut [0]).ok()?;
        u8::try_from(*SIGNALS.get(index)?).ok().map(Event::Signal)
    }
}

/// For epoll: rounded up, -1 for ever.
fn milliseconds(left: Option<Duration>) -> i32 {
    left.map_or(-1, |left| i32::try_from(left.as_millis().saturating_add(1)).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::{Event, Signals};
    use signal_hook::low_level::raise;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::{Duration, Instant};
    use vmm_sys_util::eventfd::EventFd;

    /// What is waited out.
    const SHORT: Duration = Duration::from_millis(20);

    /// What is not, on no machine.
    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn each_event_is_told_from_the_others() {
        let signals = Signals::new().unwrap();
        let wait = |ended: &EventFd, time| signals.wait(ended, Some(Instant::now() + time)).unwrap();
        let begin = Instant::now();
        assert_eq!(wait(&EventFd::new(0).unwrap(), SHORT), Event::Timeout);
        assert!(begin.elapsed() >= SHORT);
        let nobody_waits = Arc::clone(&signals.nobody_waits);
        let later = thread::spawn(move || {
            let begin = Instant::now();
            // Before, the signal would end this process.
            while nobody_waits.load(Ordering::Relaxed) {
                assert!(begin.elapsed() < LONG, "nobody ever waits");
                thread::yield_now();
            }
            raise(signal_hook::consts::SIGTERM).unwrap();
        });
        assert_eq!(wait(&EventFd::new(0).unwrap(), LONG), Event::Signal(15));
        later.join().unwrap();
        let ended = EventFd::new(0).unwrap();
        ended.write(1).unwrap();
        assert_eq!(wait(&ended, LONG), Event::Ended);
    }
}
