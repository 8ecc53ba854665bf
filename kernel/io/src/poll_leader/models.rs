//! Models for [loom](https://docs.rs/loom): `cargo test -p hermit-models --test io`. If an interrupt is lost,
//! the model ends with a deadlock, or with frames that no poll has received.

extern crate std;

use super::PollLeader;
use core::task::Waker;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::Relaxed;
use loom::sync::{Condvar, Mutex};
use loom::thread::spawn;
use std::sync::Arc;
use std::task::Wake;

/// loom's preemption bound. The variable `LOOM_MAX_PREEMPTIONS` can raise it.
const SWITCHES: usize = 3;

/// A thread with one wake-up token.
#[derive(Debug)]
struct Sleeper {
    token: Mutex<bool>,
    woken: Condvar,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.token.lock().unwrap() = true;
        self.woken.notify_one();
    }
}

impl Sleeper {
    fn new() -> Arc<Self> {
        Arc::new(Self { token: Mutex::new(false), woken: Condvar::new() })
    }

    fn sleep(&self) {
        let mut token = self.token.lock().unwrap();
        while !*token {
            token = self.woken.wait(token).unwrap();
        }
        *token = false;
    }
}

/// A device with a count of received frames, and the stack, which knows the count of its last poll.
struct Network {
    leader: PollLeader<parking_lot::RawMutex>,
    /// Number of received frames. It is accessed with relaxed ordering, like a used ring in memory, so only
    /// `PollLeader` orders the accesses.
    frames: AtomicUsize,
    stack: Mutex<Stack>,
}

#[derive(Default)]
struct Stack {
    received: usize,
    waiter: Option<Waker>,
}

impl Network {
    fn new() -> Arc<Self> {
        let (frames, stack) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { leader: PollLeader::new(), frames, stack })
    }

    /// The device receives frame number `frame` and raises an interrupt. If there is no leader, the poll
    /// thread polls.
    fn interrupt(&self, frame: usize) {
        self.frames.store(frame, Relaxed);
        match self.leader.interrupt() {
            Some(leader) => leader.wake(),
            None => self.poll(),
        }
    }

    fn poll(&self) {
        let mut stack = self.stack.lock().unwrap();
        self.leader.begin_poll();
        let received = self.frames.load(Relaxed);
        if received > stack.received {
            stack.received = received;
            stack.waiter.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Waits for a frame as a thread of the program does: it polls only for the reasons that `PollLeader`
    /// gives.
    fn wait_for(&self, frame: usize, sleeper: &Arc<Sleeper>) {
        let waker = Waker::from(Arc::clone(sleeper));
        loop {
            if self.leader.must_poll() {
                self.poll();
            }
            let mut stack = self.stack.lock().unwrap();
            if stack.received >= frame {
                break;
            }
            stack.waiter = Some(waker.clone());
            drop(stack);
            if !self.leader.lead(&waker) {
                sleeper.sleep();
            }
        }
        self.leave(&waker);
    }

    fn leave(&self, waker: &Waker) {
        if self.leader.resign(waker) {
            self.poll();
        }
    }

    fn received(&self) -> usize {
        self.stack.lock().unwrap().received
    }
}

#[test]
fn each_interrupt_is_followed_by_a_poll() {
    hermit_models::explore(SWITCHES, || {
        let network = Network::new();
        let device = {
            let network = Arc::clone(&network);
            spawn(move || {
                network.interrupt(1);
                network.interrupt(2);
            })
        };
        network.wait_for(2, &Sleeper::new());
        device.join().unwrap();
    });
}

#[test]
fn thread_that_leaves_loses_no_interrupt() {
    hermit_models::explore(SWITCHES, || {
        let network = Network::new();
        let device = {
            let network = Arc::clone(&network);
            spawn(move || network.interrupt(1))
        };
        // A thread that stops waiting for another reason than a frame.
        let waker = Waker::from(Sleeper::new());
        network.leader.lead(&waker);
        network.leave(&waker);
        device.join().unwrap();
        assert_eq!(network.received(), 1);
    });
}

#[test]
fn interrupt_reaches_one_of_two_threads_that_wait() {
    hermit_models::explore(SWITCHES, || {
        let network = Network::new();
        let device = {
            let network = Arc::clone(&network);
            spawn(move || network.interrupt(1))
        };
        let other = {
            let network = Arc::clone(&network);
            // Leads for a while, then leaves.
            spawn(move || {
                let waker = Waker::from(Sleeper::new());
                network.leader.lead(&waker);
                network.leave(&waker);
            })
        };
        network.wait_for(1, &Sleeper::new());
        device.join().unwrap();
        other.join().unwrap();
    });
}
