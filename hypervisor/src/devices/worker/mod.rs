//! The thread that serves all devices.

use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;

use super::virtio::{HostEvent, Interest, MmioTransport, Progress, Readiness};

/// Most events that are fetched at once.
const EVENTS: usize = 64;

/// The host cannot tell what has happened.
#[derive(Debug, thiserror::Error)]
#[error("devices: waiting for events: {0}")]
pub struct WorkerError(#[from] io::Error);

/// What an event is about.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The worker is to end.
    Stop,
    /// The guest has put something into a queue.
    Kick(usize),
    /// What a queue waits for on the host has happened.
    Host(usize),
}

/// As the number that an event carries.
impl From<Source> for u64 {
    fn from(source: Source) -> Self {
        match source {
            Source::Stop => 0,
            Source::Kick(queue) => 1 + 2 * queue as u64,
            Source::Host(queue) => 2 + 2 * queue as u64,
        }
    }
}

impl From<u64> for Source {
    fn from(number: u64) -> Self {
        let Some(number) = number.checked_sub(1) else { return Self::Stop };
        let queue = hermit_interface::to_usize(number / 2);
        if number.is_multiple_of(2) { Self::Kick(queue) } else { Self::Host(queue) }
    }
}

/// A queue of a device.
#[derive(Debug)]
struct Queue {
    slot: Arc<MmioTransport>,
    index: usize,
    /// By what the worker is woken now for this queue, besides the guest.
    watched: Option<HostEvent>,
}

/// Serves the queues of all devices.
///
/// Each event means a bounded amount of work; if something is left then, the queue is kicked again, so all devices
/// get their turn.
#[derive(Debug)]
pub struct Worker {
    slots: Vec<Arc<MmioTransport>>,
    /// Of all slots, one after the other.
    queues: Vec<Queue>,
    epoll: Epoll,
    stop: EventFd,
}

impl Worker {
    /// A worker for these devices, which ends once `stop` is signalled.
    ///
    /// # Errors
    ///
    /// The host has no more descriptors or memory.
    pub fn new(slots: Vec<Arc<MmioTransport>>, stop: EventFd) -> Result<Self, WorkerError> {
        let worker = Self { queues: queues(&slots), slots, epoll: Epoll::new()?, stop };
        worker.add(worker.stop.as_raw_fd(), EventSet::IN, Source::Stop)?;
        for (number, queue) in worker.queues.iter().enumerate() {
            if let Some(kick) = queue.slot.kicks().get(queue.index) {
                worker.add(kick.as_raw_fd(), EventSet::IN, Source::Kick(number))?;
            }
        }
        Ok(worker)
    }

    /// Serves devices until `stop` is signalled, then everything that the guest has sent so far ([`drain`]).
    ///
    /// # Errors
    ///
    /// The host cannot tell what has happened. What the guest has sent has been served all the same.
    pub fn run(mut self) -> Result<(), WorkerError> {
        let result = self.serve_until_stopped();
        drain(&self.slots);
        result
    }

    fn serve_until_stopped(&mut self) -> Result<(), WorkerError> {
        let mut events = [EpollEvent::default(); EVENTS];
        while self.serve_once(&mut events)?.is_continue() {}
        Ok(())
    }

    /// Waits for events and handles them.
    fn serve_once(&mut self, events: &mut [EpollEvent]) -> Result<ControlFlow<()>, WorkerError> {
        let count = match self.epoll.wait(-1, events) {
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            result => result?,
        };
        for event in events.iter().take(count) {
            match Source::from(event.data()) {
                Source::Stop => return Ok(ControlFlow::Break(())),
                Source::Kick(queue) => self.handle_kick(queue)?,
                Source::Host(queue) => self.handle_host(queue)?,
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn handle_kick(&mut self, number: usize) -> Result<(), WorkerError> {
        if let Some(queue) = self.queues.get(number) {
            queue.slot.take_kick(queue.index);
        }
        self.serve(number)
    }

    fn handle_host(&mut self, number: usize) -> Result<(), WorkerError> {
        if let Some(queue) = self.queues.get(number) {
            queue.slot.host_ready(queue.index, Readiness::Once);
        }
        self.serve(number)
    }

    fn serve(&mut self, number: usize) -> Result<(), WorkerError> {
        let Some(queue) = self.queues.get(number) else { return Ok(()) };
        match queue.slot.handle_queue(queue.index) {
            Progress::Yielded => {
                queue.slot.kick(queue.index);
                Ok(())
            }
            Progress::Done => self.watch(number, None),
            Progress::Blocked => self.watch(number, queue.slot.host_event(queue.index)),
        }
    }

    /// Waits for the host only while a queue does: a descriptor at its end, or with more input than the guest takes, would
    /// wake the worker again and again.
    fn watch(&mut self, number: usize, event: Option<HostEvent>) -> Result<(), WorkerError> {
        let Some(queue) = self.queues.get_mut(number).filter(|queue| queue.watched != event) else {
            return Ok(());
        };
        if let Some(HostEvent { fd, .. }) = queue.watched.take() {
            self.epoll.ctl(ControlOperation::Delete, fd, EpollEvent::default())?;
        }
        let Some(HostEvent { fd, interest }) = event else { return Ok(()) };
        let events = match interest {
            Interest::Readable => EventSet::IN,
            Interest::Writable => EventSet::OUT,
        };
        let data = Source::Host(number).into();
        match self.epoll.ctl(ControlOperation::Add, fd, EpollEvent::new(events, data)) {
            Ok(()) => queue.watched = event,
            // epoll(7) refuses regular files and devices that never block (EPERM).
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                queue.slot.host_ready(queue.index, Readiness::Always);
                queue.slot.kick(queue.index);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn add(&self, descriptor: RawFd, events: EventSet, source: Source) -> Result<(), WorkerError> {
        Ok(self.epoll.ctl(ControlOperation::Add, descriptor, EpollEvent::new(events, source.into()))?)
    }
}

fn queues(slots: &[Arc<MmioTransport>]) -> Vec<Queue> {
    let of = |slot: &Arc<MmioTransport>| {
        let queue = |index| Queue { slot: Arc::clone(slot), index, watched: None };
        (0..slot.kicks().len()).map(queue).collect::<Vec<_>>()
    };
    slots.iter().flat_map(of).collect()
}

/// Serves everything that the guest has sent so far. May be called from any thread, at any time.
pub fn drain(slots: &[Arc<MmioTransport>]) {
    slots.iter().for_each(|slot| slot.drain());
}

#[cfg(test)]
mod tests;
