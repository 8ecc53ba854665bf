//! Control of the vCPU threads.
//!
//! A vCPU thread starts paused, and waits for commands of the [`VcpuManager`]. After the command `Run`, it
//! runs the guest until the manager interrupts it, or until its vCPU stops at a debug event. Then it sends
//! one reply, is paused, and waits for the next command. While it is paused, it can execute a function with
//! its vCPU ([`VcpuManager::call`]). Only its own thread uses a vCPU, because ptrace(2) requires that.
//!
//! A signal interrupts a thread that runs the guest. A signal that arrives just before the thread enters the
//! guest is lost, so the manager repeats the signal until the thread replies. The thread checks for a
//! requested pause only after an interrupted run, so pauses cost a running guest nothing. After an
//! interrupted run, the guest's last I/O access is complete.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

use crate::engine::Vcpu;
use crate::engine::debug::DebugEvent;
use crate::vcpu::thread_id::ThreadId;

/// Time after which the first signal is repeated; it doubles with each repetition.
const MIN_SIGNAL_INTERVAL: Duration = Duration::from_micros(50);
/// Maximum time between two signals.
const MAX_SIGNAL_INTERVAL: Duration = Duration::from_millis(10);
/// Interval at which a paused vCPU thread checks if its vCPU has ended ([`Vcpu::has_ended`]).
const END_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Function that a vCPU thread calls with its vCPU.
type VcpuCall = Box<dyn FnOnce(&mut dyn Vcpu) + Send>;

/// Command to a paused vCPU thread.
enum VcpuCommand {
    /// Run the guest.
    Run,
    /// Call this function, and wait for the next command.
    Call(VcpuCall),
    /// Exit.
    Exit,
}

/// Reply of a vCPU thread that has paused.
#[derive(Clone, Copy, Debug)]
enum VcpuReply {
    /// The manager has interrupted the vCPU.
    Interrupted,
    /// The vCPU has stopped at a debug event.
    Stopped(DebugEvent),
}

impl VcpuReply {
    const fn event(self) -> Option<DebugEvent> {
        match self {
            Self::Interrupted => None,
            Self::Stopped(event) => Some(event),
        }
    }
}

/// A vCPU thread's end of the channel to the [`VcpuManager`].
#[derive(Debug)]
pub struct VcpuEndpoint {
    is_pause_requested: Arc<AtomicBool>,
    commands: Receiver<VcpuCommand>,
    replies: Sender<VcpuReply>,
    stop_event: Arc<EventFd>,
    thread_id: Arc<ThreadId>,
}

impl VcpuEndpoint {
    /// Executes commands until the vCPU must run, and then returns true. Also returns true if the vCPU has
    /// ended, because its next run reports the end. Returns false if the thread must exit.
    #[must_use]
    pub fn wait_for_run(&self, vcpu: &mut dyn Vcpu) -> bool {
        self.thread_id.register();
        loop {
            match self.commands.recv_timeout(END_CHECK_INTERVAL) {
                Ok(VcpuCommand::Run) => return true,
                Ok(VcpuCommand::Call(call)) => call(vcpu),
                Err(RecvTimeoutError::Timeout) if vcpu.has_ended() => return true,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(VcpuCommand::Exit) | Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Handles an interrupted run. If the manager has requested a pause, reports it, and waits as
    /// [`Self::wait_for_run`] does. Returns false if the thread must exit.
    #[must_use]
    pub fn interrupted(&self, vcpu: &mut dyn Vcpu) -> bool {
        !self.is_pause_requested.load(Ordering::Relaxed) || self.pause(vcpu, VcpuReply::Interrupted)
    }

    /// Reports a debug event, and then waits as [`Self::wait_for_run`] does. Returns false if the thread must
    /// exit.
    #[must_use]
    pub fn stopped(&self, vcpu: &mut dyn Vcpu, event: DebugEvent) -> bool {
        self.pause(vcpu, VcpuReply::Stopped(event))
    }

    fn pause(&self, vcpu: &mut dyn Vcpu, reply: VcpuReply) -> bool {
        if self.replies.send(reply).is_err() {
            return false;
        }
        // Fails if the counter is at its maximum. Then the event is readable anyway.
        let _: io::Result<()> = self.stop_event.write(1);
        self.wait_for_run(vcpu)
    }
}

/// Manager of a VM's vCPU threads.
#[derive(Debug)]
pub struct VcpuManager {
    vcpus: Vec<VcpuHandle>,
    stop_event: Arc<EventFd>,
}

/// Handle of one vCPU thread.
#[derive(Debug)]
struct VcpuHandle {
    is_pause_requested: Arc<AtomicBool>,
    commands: Sender<VcpuCommand>,
    replies: Receiver<VcpuReply>,
    thread: Option<JoinHandle<()>>,
    thread_id: Arc<ThreadId>,
    is_running: bool,
}

impl VcpuManager {
    /// Creates the handles of `count` vCPUs, and the endpoints for their threads. The threads are added later
    /// ([`Self::attach`]); each starts with [`VcpuEndpoint::wait_for_run`].
    ///
    /// # Errors
    ///
    /// The host cannot create an eventfd or install a signal handler.
    pub fn new(count: usize) -> io::Result<(Self, Vec<VcpuEndpoint>)> {
        // An empty handler is enough, because the delivery of the signal interrupts the guest.
        register_signal_handler(SIGRTMIN(), ignore_signal)?;
        let stop_event = Arc::new(EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)?);
        let (vcpus, endpoints) = (0..count).map(|_| VcpuHandle::new(&stop_event)).unzip();
        Ok((Self { vcpus, stop_event }, endpoints))
    }

    /// Adds the threads, in the order of their vCPUs.
    pub fn attach(&mut self, threads: impl IntoIterator<Item = JoinHandle<()>>) {
        for (vcpu, thread) in self.vcpus.iter_mut().zip(threads) {
            vcpu.thread = Some(thread);
        }
    }

    /// Returns the number of vCPUs.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.vcpus.len()
    }

    /// Returns the event that is readable when [`Self::next_stop`] may return a stop. Clear the event before
    /// that call: if it were cleared after the call, a stop in between would be lost.
    #[must_use]
    pub fn stop_event(&self) -> &EventFd {
        &self.stop_event
    }

    /// Clears [`Self::stop_event`] until the next stop.
    pub fn clear_stop_event(&self) {
        // Fails if the event is already clear.
        let _: io::Result<u64> = self.stop_event.read();
    }

    /// Resumes a vCPU.
    pub fn run(&mut self, id: usize) {
        if let Some(vcpu) = self.vcpus.get_mut(id).filter(|vcpu| !vcpu.is_running) {
            vcpu.is_pause_requested.store(false, Ordering::Relaxed);
            vcpu.is_running = vcpu.commands.send(VcpuCommand::Run).is_ok();
        }
    }

    /// Resumes all vCPUs.
    pub fn run_all(&mut self) {
        (0..self.count()).for_each(|id| self.run(id));
    }

    /// Returns true if any vCPU runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.vcpus.iter().any(|vcpu| vcpu.is_running)
    }

    /// Pauses all vCPUs. Returns the vCPUs that stopped at a debug event before they were paused, and these
    /// events.
    pub fn pause(&mut self) -> Vec<(usize, DebugEvent)> {
        self.vcpus.iter().for_each(VcpuHandle::request_pause);
        let events = self.vcpus.iter_mut().map(VcpuHandle::wait_for_pause).enumerate();
        events.filter_map(|(id, event)| Some((id, event?))).collect()
    }

    /// Returns a vCPU that has stopped at a debug event, and the event; `None` if there is no such vCPU.
    pub fn next_stop(&mut self) -> Option<(usize, DebugEvent)> {
        self.vcpus.iter_mut().enumerate().find_map(|(id, vcpu)| Some((id, vcpu.take_stop()?)))
    }

    /// Calls `call` on the thread of a paused vCPU, and returns its result. Returns `None` if the vCPU runs
    /// or its thread has exited.
    pub fn call<T: Send + 'static>(
        &self,
        id: usize,
        call: impl FnOnce(&mut dyn Vcpu) -> T + Send + 'static,
    ) -> Option<T> {
        let vcpu = self.vcpus.get(id).filter(|vcpu| !vcpu.is_running)?;
        let (sender, result) = mpsc::channel();
        let call = move |vcpu: &mut dyn Vcpu| {
            // Cannot fail: the receiver exists until the result has arrived.
            let _: Result<(), mpsc::SendError<T>> = sender.send(call(vcpu));
        };
        vcpu.commands.send(VcpuCommand::Call(Box::new(call))).ok()?;
        result.recv().ok()
    }

    /// Makes all threads exit, and joins those that exit within `timeout`. The others end with the process.
    pub fn shut_down(self, timeout: Duration) {
        let start = Instant::now();
        for vcpu in &self.vcpus {
            vcpu.is_pause_requested.store(true, Ordering::Relaxed);
            // Fails if the thread has exited.
            let _: Result<(), mpsc::SendError<VcpuCommand>> = vcpu.commands.send(VcpuCommand::Exit);
            vcpu.interrupt();
        }
        self.vcpus.into_iter().for_each(|vcpu| vcpu.join(start, timeout));
    }
}

impl VcpuHandle {
    fn new(stop_event: &Arc<EventFd>) -> (Self, VcpuEndpoint) {
        let (command_sender, commands) = mpsc::channel();
        let (reply_sender, replies) = mpsc::channel();
        let is_pause_requested = Arc::new(AtomicBool::new(false));
        let thread_id = Arc::new(ThreadId::default());
        let endpoint = VcpuEndpoint {
            is_pause_requested: Arc::clone(&is_pause_requested),
            commands,
            replies: reply_sender,
            stop_event: Arc::clone(stop_event),
            thread_id: Arc::clone(&thread_id),
        };
        let handle = Self {
            is_pause_requested,
            commands: command_sender,
            replies,
            thread: None,
            thread_id,
            is_running: false,
        };
        (handle, endpoint)
    }

    /// Joins the thread, unless `timeout` has passed since `start`.
    fn join(mut self, start: Instant, timeout: Duration) {
        let mut interval = MIN_SIGNAL_INTERVAL;
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            if start.elapsed() > timeout {
                return;
            }
            // The thread drops its endpoint last, so a disconnected channel means that the thread is about to
            // exit.
            match self.replies.recv_timeout(interval) {
                Err(RecvTimeoutError::Disconnected) => break,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            interval = (interval * 2).min(MAX_SIGNAL_INTERVAL);
            self.interrupt();
        }
        // An error means that the thread has panicked, which the thread itself has reported.
        let _: Option<thread::Result<()>> = self.thread.take().map(JoinHandle::join);
    }

    fn request_pause(&self) {
        if self.is_running {
            self.is_pause_requested.store(true, Ordering::Relaxed);
            self.interrupt();
        }
    }

    fn interrupt(&self) {
        // Fails if the thread has exited, or has not registered its ID yet.
        let _: io::Result<()> = self.thread_id.signal(SIGRTMIN());
    }

    /// Waits until the vCPU is paused. Returns the debug event if it has stopped at one.
    fn wait_for_pause(&mut self) -> Option<DebugEvent> {
        let mut interval = MIN_SIGNAL_INTERVAL;
        while self.is_running {
            match self.replies.recv_timeout(interval) {
                Err(RecvTimeoutError::Timeout) => self.request_pause(),
                Err(RecvTimeoutError::Disconnected) => self.is_running = false,
                Ok(reply) => {
                    self.is_running = false;
                    return reply.event();
                }
            }
            interval = (interval * 2).min(MAX_SIGNAL_INTERVAL);
        }
        None
    }

    fn take_stop(&mut self) -> Option<DebugEvent> {
        let reply = self.replies.try_recv().ok()?;
        self.is_running = false;
        reply.event()
    }
}

/// Empty signal handler. Unlike an ignored signal, a signal with a handler interrupts system calls.
pub(crate) extern "C" fn ignore_signal(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

#[cfg(test)]
pub(crate) mod tests;
