//! One direction of the relay: a thread that receives frames, puts them on the emulated path, and sends them
//! when they leave it.
//!
//! The thread sleeps in poll(2) until a frame arrives or the next frame leaves the path, whichever is first.
//! The [`Emulator`] decides when a frame leaves, or that it is lost. The emulator is in a mutex, because the
//! suite replaces the path between measurements and reads the counts. A sender that blocks delays only its
//! own direction. `max_lateness` tells if the thread was scheduled in time: if it is large, the host was too
//! busy for the measurement.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::emulator::{Emulator, Fate, Impairments};

/// Maximum size of a frame in bytes: Ethernet's with a VLAN tag.
const MAX_FRAME: usize = 1518;

/// Maximum time until a thread notices that the relay ends.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Source of frames: a descriptor that can be polled. Each read returns one frame.
pub(super) trait Receiver: AsFd {
    /// Receives a frame and returns its size.
    fn receive(&self, frame: &mut [u8]) -> io::Result<usize>;
}

/// Destination of frames.
pub(super) trait Sender {
    /// Sends a frame. A frame that the receiver cannot take is lost.
    fn send(&self, frame: &[u8]) -> io::Result<()>;
}

/// Counts of frames by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::bench::net) struct FrameCounts {
    pub(in crate::bench::net) accepted: u64,
    pub(in crate::bench::net) lost: u64,
    pub(in crate::bench::net) dropped: u64,
    /// Maximum delay from the time at which a frame should have left the path to the time at which it was
    /// sent.
    pub(in crate::bench::net) max_lateness: Duration,
}

impl fmt::Display for FrameCounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, lost, dropped, max_lateness } = self;
        write!(out, "{accepted} frames, {lost} lost, {dropped} dropped, late by {max_lateness:.1?} at most")
    }
}

/// State of a direction, which its thread shares with the suite.
#[derive(Debug)]
pub(super) struct Direction {
    start: Instant,
    is_stopped: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    path: Emulator<Vec<u8>>,
    counts: FrameCounts,
}

impl State {
    fn new(impairments: Impairments, seed: u64) -> Self {
        Self { path: Emulator::new(impairments, seed), counts: FrameCounts::default() }
    }
}

impl Default for Direction {
    fn default() -> Self {
        let state = Mutex::new(State::new(Impairments::default(), 0));
        Self { start: Instant::now(), is_stopped: AtomicBool::new(false), state }
    }
}

impl Direction {
    /// Replaces the path by an empty one with new impairments.
    pub(super) fn impair(&self, impairments: Impairments, seed: u64) {
        *self.state() = State::new(impairments, seed);
    }

    /// Returns the counts of frames since the path was replaced.
    pub(super) fn counts(&self) -> FrameCounts {
        self.state().counts
    }

    /// Makes the thread end, within [`STOP_INTERVAL`] if it does not block.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Passes frames on until the direction is stopped.
    pub(super) fn run(&self, receiver: &impl Receiver, sender: &impl Sender) -> io::Result<()> {
        let mut buffer = vec![0; MAX_FRAME];
        while !self.is_stopped.load(Ordering::Relaxed) {
            while let Some(frame) = self.depart() {
                sender.send(&frame)?;
            }
            if is_readable(receiver, self.timeout())? {
                let size = receiver.receive(&mut buffer)?;
                self.arrive(buffer.get(..size).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Puts a frame on the path.
    fn arrive(&self, frame: &[u8]) {
        let size = u64::try_from(frame.len()).unwrap_or(u64::MAX);
        let mut state = self.state();
        let State { path, counts } = &mut *state;
        let count = match path.arrive(self.now(), size, frame.to_vec()) {
            Fate::Accepted => &mut counts.accepted,
            Fate::Lost => &mut counts.lost,
            Fate::Dropped => &mut counts.dropped,
        };
        *count += 1;
    }

    /// Removes and returns a frame that has left the path.
    fn depart(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        let (now, time) = (self.now(), state.path.next_departure()?);
        let lateness = Duration::from_nanos(now.saturating_sub(time));
        let frame = state.path.depart(now)?;
        state.counts.max_lateness = state.counts.max_lateness.max(lateness);
        Some(frame)
    }

    /// Returns the time until the next frame leaves, at most [`STOP_INTERVAL`].
    fn timeout(&self) -> Duration {
        let next = self.state().path.next_departure();
        let next = next.map(|time| Duration::from_nanos(time.saturating_sub(self.now())));
        next.map_or(STOP_INTERVAL, |time| time.min(STOP_INTERVAL))
    }

    /// Returns the emulator's time.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a frame can be received, or until the timeout. Returns true if a frame can be received.
fn is_readable(receiver: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    let count = poll(&mut [PollFd::new(receiver, PollFlags::IN)], Some(&timeout));
    match count {
        Err(rustix::io::Errno::INTR) => Ok(false),
        count => Ok(count? > 0),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::net::UnixDatagram;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::{Direction, Impairments, Receiver, Sender};

    impl Receiver for UnixDatagram {
        fn receive(&self, frame: &mut [u8]) -> io::Result<usize> {
            self.recv(frame)
        }
    }

    impl Sender for mpsc::Sender<Vec<u8>> {
        fn send(&self, frame: &[u8]) -> io::Result<()> {
            self.send(frame.to_vec()).map_err(io::Error::other)
        }
    }

    #[test]
    fn frames_are_passed_on_counted_and_lost_as_the_path_says() {
        let (direction, (far, near)) = (Direction::default(), UnixDatagram::pair().unwrap());
        let (sender, frames) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| direction.run(&near, &sender).unwrap());
            far.send(b"one").unwrap();
            assert_eq!(frames.recv().unwrap(), b"one");
            let counts = direction.counts();
            assert_eq!((counts.accepted, counts.lost, counts.dropped), (1, 0, 0));
            direction.impair(Impairments { loss_ppm: 1_000_000, ..Impairments::default() }, 1);
            far.send(b"two").unwrap();
            while direction.counts().lost == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            direction.impair(Impairments::default(), 1);
            far.send(b"three").unwrap();
            assert_eq!(frames.recv().unwrap(), b"three");
            direction.stop();
        });
    }
}
