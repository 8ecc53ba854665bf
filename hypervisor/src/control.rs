//! Processors' threads, and who controls them.
//!
//! A thread begins paused. It runs when the [`Controller`] says so, until it is told to pause or its processor comes to
//! something at which a debugger wants it to stop; each of them is one *stop* that the controller is told of, and after
//! which the thread waits again. While it waits it answers questions about its processor ([`Controller::ask`]): requests
//! to an engine come from the processor's own thread only, because not every engine takes them from others.
//!
//! A thread in the guest is interrupted by a signal. One that arrives just before the processor runs is lost, so it is
//! sent until the thread answers. Nobody's request costs the guest anything before that: the thread looks for one after
//! an interrupted run only. That is also when the guest's last access to a device is complete.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

use crate::engine::Vcpu;
use crate::engine::debug::DebugEvent;

/// How long a thread has to answer before the first signal is repeated; then longer and longer.
const PATIENCE: Duration = Duration::from_micros(50);
/// How long at most.
const MOST_PATIENCE: Duration = Duration::from_millis(10);

/// Something to be done with a processor by its own thread.
type Question = Box<dyn FnOnce(&mut dyn Vcpu) + Send>;

enum Request {
    Run,
    Ask(Question),
    End,
}

/// What a processor's thread has of its controller.
#[derive(Debug)]
pub struct Leash {
    is_wanted: Arc<AtomicBool>,
    requests: Receiver<Request>,
    stops: Sender<Option<DebugEvent>>,
    stirred: Arc<EventFd>,
}

impl Leash {
    /// Waits until the processor may run. If not, the thread is to end.
    #[must_use]
    pub fn may_run(&self, vcpu: &mut dyn Vcpu) -> bool {
        loop {
            match self.requests.recv() {
                Ok(Request::Run) => return true,
                Ok(Request::Ask(question)) => question(vcpu),
                Ok(Request::End) | Err(_) => return false,
            }
        }
    }

    /// The processor was interrupted: pauses, if that was the controller. Then as [`Self::may_run`].
    #[must_use]
    pub fn interrupted(&self, vcpu: &mut dyn Vcpu) -> bool {
        !self.is_wanted.load(Ordering::Relaxed) || self.stop(vcpu, None)
    }

    /// The processor came to something. Then as [`Self::may_run`].
    #[must_use]
    pub fn stopped(&self, vcpu: &mut dyn Vcpu, event: DebugEvent) -> bool {
        self.stop(vcpu, Some(event))
    }

    fn stop(&self, vcpu: &mut dyn Vcpu, event: Option<DebugEvent>) -> bool {
        if self.stops.send(event).is_err() {
            return false;
        }
        // A counter that is full has been raised anyway.
        let _: io::Result<()> = self.stirred.write(1);
        self.may_run(vcpu)
    }
}

/// The threads of a machine's processors.
#[derive(Debug)]
pub struct Controller {
    processors: Vec<Processor>,
    stirred: Arc<EventFd>,
}

#[derive(Debug)]
struct Processor {
    is_wanted: Arc<AtomicBool>,
    requests: Sender<Request>,
    stops: Receiver<Option<DebugEvent>>,
    thread: Option<JoinHandle<()>>,
    is_running: bool,
}

impl Controller {
    /// Control over so many processors, and what their threads have of it. The threads themselves come later
    /// ([`Self::attach`]): what they do begins with [`Leash::may_run`].
    ///
    /// # Errors
    ///
    /// If the host has no more events.
    pub fn prepare(count: usize) -> io::Result<(Self, Vec<Leash>)> {
        // The signal itself does nothing; its arrival interrupts a processor.
        register_signal_handler(SIGRTMIN(), ignore)?;
        let stirred = Arc::new(EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)?);
        let pairs = (0..count).map(|_| Processor::with_leash(&stirred));
        let (processors, leashes) = pairs.unzip();
        Ok((Self { processors, stirred }, leashes))
    }

    /// The threads of the processors, in their order.
    pub fn attach(&mut self, threads: impl IntoIterator<Item = JoinHandle<()>>) {
        for (processor, thread) in self.processors.iter_mut().zip(threads) {
            processor.thread = Some(thread);
        }
    }

    /// How many processors there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.processors.len()
    }

    /// Readable when [`Self::next_stop`] may have something. To be calmed before one looks, not after.
    #[must_use]
    pub fn stirred(&self) -> &EventFd {
        &self.stirred
    }

    /// Has [`Self::stirred`] be readable no more until the next stop.
    pub fn calm(&self) {
        // An empty counter is an error, and as it should be.
        let _: io::Result<u64> = self.stirred.read();
    }

    /// Lets a processor run.
    pub fn run(&mut self, number: usize) {
        if let Some(processor) = self.processors.get_mut(number).filter(|processor| !processor.is_running) {
            processor.is_wanted.store(false, Ordering::Relaxed);
            processor.is_running = processor.requests.send(Request::Run).is_ok();
        }
    }

    /// Lets all processors run.
    pub fn run_all(&mut self) {
        (0..self.count()).for_each(|number| self.run(number));
    }

    /// Whether any processor runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.processors.iter().any(|processor| processor.is_running)
    }

    /// Pauses all processors that run. Those that came to something at that moment are named.
    pub fn pause(&mut self) -> Vec<(usize, DebugEvent)> {
        self.processors.iter().for_each(Processor::want);
        let stops = self.processors.iter_mut().map(Processor::await_stop).enumerate();
        stops.filter_map(|(number, event)| Some((number, event?))).collect()
    }

    /// A processor that has stopped of itself, if there is one.
    pub fn next_stop(&mut self) -> Option<(usize, DebugEvent)> {
        self.processors
            .iter_mut()
            .enumerate()
            .find_map(|(number, processor)| Some((number, processor.take_stop()?)))
    }

    /// Has a paused processor's thread do something, and gives the answer. None if the processor runs or has ended.
    pub fn ask<T: Send + 'static>(
        &self,
        number: usize,
        question: impl FnOnce(&mut dyn Vcpu) -> T + Send + 'static,
    ) -> Option<T> {
        let processor = self.processors.get(number).filter(|processor| !processor.is_running)?;
        let (answer, answers) = mpsc::channel();
        let question = move |vcpu: &mut dyn Vcpu| {
            // Who asks waits for the answer.
            let _: Result<(), mpsc::SendError<T>> = answer.send(question(vcpu));
        };
        processor.requests.send(Request::Ask(Box::new(question))).ok()?;
        answers.recv().ok()
    }

    /// Ends all threads. One that is held up on the host for longer than that is left alone; it ends with the process.
    pub fn end(self, most: Duration) {
        let start = Instant::now();
        for processor in &self.processors {
            processor.is_wanted.store(true, Ordering::Relaxed);
            // A thread that does not listen has ended.
            let _: Result<(), mpsc::SendError<Request>> = processor.requests.send(Request::End);
            processor.interrupt();
        }
        self.processors.into_iter().for_each(|processor| processor.join(start, most));
    }
}

impl Processor {
    fn with_leash(stirred: &Arc<EventFd>) -> (Self, Leash) {
        let (requests, requested) = mpsc::channel();
        let (stopped, stops) = mpsc::channel();
        let is_wanted = Arc::new(AtomicBool::new(false));
        let leash = Leash {
            is_wanted: Arc::clone(&is_wanted),
            requests: requested,
            stops: stopped,
            stirred: Arc::clone(stirred),
        };
        (Self { is_wanted, requests, stops, thread: None, is_running: false }, leash)
    }

    /// Waits for the end of its thread, but not longer than that.
    fn join(mut self, start: Instant, most: Duration) {
        let mut patience = PATIENCE;
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            if start.elapsed() > most {
                return;
            }
            thread::sleep(patience);
            patience = (patience * 2).min(MOST_PATIENCE);
            self.interrupt();
        }
        // A thread that panicked has ended all the same.
        let _: Option<thread::Result<()>> = self.thread.take().map(JoinHandle::join);
    }

    /// Asks a processor that runs to pause.
    fn want(&self) {
        if self.is_running {
            self.is_wanted.store(true, Ordering::Relaxed);
            self.interrupt();
        }
    }

    fn interrupt(&self) {
        // A thread that has ended needs no signal.
        let _: Option<vmm_sys_util::errno::Result<()>> =
            self.thread.as_ref().map(|thread| thread.kill(SIGRTMIN()));
    }

    /// Waits for the stop of a processor that runs, and says what it came to.
    fn await_stop(&mut self) -> Option<DebugEvent> {
        let mut patience = PATIENCE;
        while self.is_running {
            match self.stops.recv_timeout(patience) {
                Err(RecvTimeoutError::Timeout) => self.want(),
                Err(RecvTimeoutError::Disconnected) => self.is_running = false,
                Ok(event) => {
                    self.is_running = false;
                    return event;
                }
            }
            patience = (patience * 2).min(MOST_PATIENCE);
        }
        None
    }

    fn take_stop(&mut self) -> Option<DebugEvent> {
        let event = self.stops.try_recv().ok()?;
        self.is_running = false;
        event
    }
}

/// A handler for signals whose arrival is all that matters.
pub(crate) extern "C" fn ignore(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

#[cfg(test)]
pub(crate) mod tests;
