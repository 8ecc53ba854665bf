//! The thread that serves all devices.

use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;

use super::virtio::{HostInput, Readiness, Served, Slot};

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
    Queue { slot: usize, queue: usize },
    /// There is input for a device.
    Input { slot: usize },
}

/// Serves the queues of all devices.
///
/// Each event means a bounded amount of work; if something is left then, the queue is kicked again, so all devices
/// get their turn.
#[derive(Debug)]
pub struct Worker {
    slots: Vec<Arc<Slot>>,
    /// For each slot, the descriptor by whose input it is woken now.
    watched: Vec<Option<RawFd>>,
    sources: Vec<Source>,
    epoll: Epoll,
    stop: EventFd,
}

impl Worker {
    /// A worker for these devices, which ends once `stop` is signalled.
    ///
    /// # Errors
    ///
    /// The host has no more descriptors or memory.
    pub fn new(slots: Vec<Arc<Slot>>, stop: EventFd) -> Result<Self, WorkerError> {
        let watched = vec![None; slots.len()];
        let mut worker = Self { slots, watched, sources: Vec::new(), epoll: Epoll::new()?, stop };
        // The first sources are those of input: their number is that of the slot.
        worker.sources = (0..worker.slots.len()).map(|slot| Source::Input { slot }).collect();
        worker.add(worker.stop.as_raw_fd(), Source::Stop)?;
        for (index, slot) in worker.slots.clone().iter().enumerate() {
            for (queue, kick) in slot.kicks().iter().enumerate() {
                worker.add(kick.as_raw_fd(), Source::Queue { slot: index, queue })?;
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
            match self.sources.get(hermit_interface::to_usize(event.data())).copied() {
                Some(Source::Stop) => return Ok(ControlFlow::Break(())),
                Some(Source::Queue { slot, queue }) => self.handle_queue(slot, queue)?,
                Some(Source::Input { slot }) => self.handle_input(slot)?,
                None => {}
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn handle_queue(&mut self, index: usize, queue: usize) -> Result<(), WorkerError> {
        let Some(slot) = self.slots.get(index).map(Arc::clone) else { return Ok(()) };
        slot.take_kick(queue);
        let served = slot.handle_queue(queue);
        if served == Served::Partly {
            slot.kick(queue);
        }
        let input = slot.input();
        match input {
            Some(input) if input.queue != queue => Ok(()),
            _ => self.watch(index, input.filter(|_| served == Served::Waiting)),
        }
    }

    fn handle_input(&mut self, index: usize) -> Result<(), WorkerError> {
        let Some(slot) = self.slots.get(index).map(Arc::clone) else { return Ok(()) };
        let Some(input) = slot.input() else { return self.watch(index, None) };
        slot.input_ready(Readiness::Once);
        self.handle_queue(index, input.queue)
    }

    /// Waits for input only while a device wants some: a descriptor at its end, or with more input than the guest takes,
    /// would wake the worker again and again.
    fn watch(&mut self, index: usize, input: Option<HostInput>) -> Result<(), WorkerError> {
        let (Some(watched), Some(slot)) = (self.watched.get_mut(index), self.slots.get(index)) else {
            return Ok(());
        };
        let wanted = input.map(|input| input.descriptor);
        if *watched == wanted {
            return Ok(());
        }
        if let Some(descriptor) = watched.take() {
            self.epoll.ctl(ControlOperation::Delete, descriptor, EpollEvent::default())?;
        }
        let Some(input) = input else { return Ok(()) };
        let event = EpollEvent::new(EventSet::IN, index as u64);
        match self.epoll.ctl(ControlOperation::Add, input.descriptor, event) {
            Ok(()) => *watched = wanted,
            // epoll(7) refuses regular files and devices that never block (EPERM).
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                slot.input_ready(Readiness::Always);
                slot.kick(input.queue);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn add(&mut self, descriptor: RawFd, source: Source) -> Result<(), WorkerError> {
        let event = EpollEvent::new(EventSet::IN, self.sources.len() as u64);
        self.epoll.ctl(ControlOperation::Add, descriptor, event)?;
        self.sources.push(source);
        Ok(())
    }
}

/// Serves everything that the guest has sent so far. May be called from any thread, at any time.
pub fn drain(slots: &[Arc<Slot>]) {
    slots.iter().for_each(|slot| slot.drain());
}

#[cfg(test)]
mod tests;
