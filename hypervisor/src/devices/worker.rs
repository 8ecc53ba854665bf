//! Event loop that processes the queues of devices.
//!
//! A [`Worker`] is the body of a device thread. It waits with epoll(7) for three kinds of events: the kick of
//! a queue (an available buffer notification), a host event for which a blocked queue waits, and the event
//! that stops the worker. After the stop, it drains the output queues, so that the guest's last output is not
//! lost.

use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;

use super::virtio::{EventValidity, HostEvent, Interest, MmioTransport, QueueProgress};

/// Maximum number of events of one epoll_wait(2).
const MAX_EVENTS: usize = 64;

/// A call of epoll(7) has failed.
#[derive(Debug, thiserror::Error)]
#[error("devices: waiting for events: {0}")]
pub struct WorkerError(#[from] io::Error);

/// Source of an event.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The event that ends the worker.
    Stop,
    /// The kick of the worker's queue with this number: the driver has made chains available.
    Kick(usize),
    /// The host event of the worker's queue with this number ([`HostEvent`]).
    Host(usize),
}

/// Encodes the source as the data of an epoll event.
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
struct WorkerQueue {
    device: Arc<MmioTransport>,
    index: usize,
    /// Host event that is registered with epoll for this queue.
    watched: Option<HostEvent>,
}

/// Event loop for queues of one or more devices.
///
/// The work for each event is bounded. A queue with work left is kicked again, and is processed after all
/// queues whose events are already pending. So no device starves another one.
#[derive(Debug)]
pub struct Worker {
    queues: Vec<WorkerQueue>,
    epoll: Epoll,
    stop: EventFd,
}

impl Worker {
    /// Creates a worker for these queues, each given as a device and an index. [`Self::run`] returns once
    /// `stop` is signalled.
    ///
    /// # Errors
    ///
    /// The host has no more file descriptors or memory.
    pub fn new(queues: Vec<(Arc<MmioTransport>, usize)>, stop: EventFd) -> Result<Self, WorkerError> {
        let queue = |(device, index)| WorkerQueue { device, index, watched: None };
        let queues = queues.into_iter().map(queue).collect();
        let worker = Self { queues, epoll: Epoll::new()?, stop };
        worker.add(worker.stop.as_raw_fd(), EventSet::IN, Source::Stop)?;
        for (number, queue) in worker.queues.iter().enumerate() {
            if let Some(kick) = queue.device.kicks().get(queue.index) {
                worker.add(kick.as_raw_fd(), EventSet::IN, Source::Kick(number))?;
            }
        }
        Ok(worker)
    }

    /// Processes events until `stop` is signalled. Then processes the output queues until all chains that
    /// were available at the stop are used, and finishes their streams.
    ///
    /// # Errors
    ///
    /// A call of epoll(7) fails. The output queues are still drained.
    pub fn run(mut self) -> Result<(), WorkerError> {
        let result = self.serve_until_stopped();
        for WorkerQueue { device, index, .. } in &self.queues {
            device.drain_queue(*index);
            device.finish_queue(*index);
        }
        result
    }

    fn serve_until_stopped(&mut self) -> Result<(), WorkerError> {
        let mut events = [EpollEvent::default(); MAX_EVENTS];
        while self.serve_once(&mut events)?.is_continue() {}
        Ok(())
    }

    /// Waits for events and handles them. Breaks once `stop` is signalled.
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

    /// Clears the kick of a queue and processes it.
    fn handle_kick(&mut self, number: usize) -> Result<(), WorkerError> {
        if let Some(queue) = self.queues.get(number) {
            queue.device.take_kick(queue.index);
        }
        self.serve(number)
    }

    /// Reports the host event to the device and processes the queue.
    fn handle_host(&mut self, number: usize) -> Result<(), WorkerError> {
        if let Some(queue) = self.queues.get(number) {
            queue.device.host_ready(queue.index, EventValidity::Once);
        }
        self.serve(number)
    }

    /// Processes a queue, and registers the event after which it must be processed again.
    fn serve(&mut self, number: usize) -> Result<(), WorkerError> {
        let Some(queue) = self.queues.get(number) else { return Ok(()) };
        match queue.device.handle_queue(queue.index) {
            QueueProgress::Yielded => {
                queue.device.kick(queue.index);
                Ok(())
            }
            QueueProgress::Done => self.watch(number, None),
            QueueProgress::Blocked => self.watch(number, queue.device.host_event(queue.index)),
        }
    }

    /// Replaces the registered host event of a queue by `event`. While a queue does not wait for the host, no
    /// event is registered: because epoll is level-triggered, a descriptor at its end of file, or with more
    /// input than the guest consumes, would wake the worker continuously.
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
            // epoll(7) refuses regular files, and devices that never block, with EPERM.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                queue.device.host_ready(queue.index, EventValidity::Always);
                queue.device.kick(queue.index);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn add(&self, descriptor: RawFd, events: EventSet, source: Source) -> Result<(), WorkerError> {
        Ok(self.epoll.ctl(ControlOperation::Add, descriptor, EpollEvent::new(events, source.into()))?)
    }
}

/// Returns all queues of a device, for [`Worker::new`].
pub fn all_queues(device: &Arc<MmioTransport>) -> impl Iterator<Item = (Arc<MmioTransport>, usize)> + use<> {
    let device = Arc::clone(device);
    (0..device.kicks().len()).map(move |index| (Arc::clone(&device), index))
}

#[cfg(test)]
mod tests;
