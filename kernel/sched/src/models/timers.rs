//! Timers: when a thread's timer expires, another thread may wake the thread at the same time. The thread may
//! then sleep again on another CPU, before the first CPU has finished the change of its heap.

use hermit_base::lock::Lock;
use loom::sync::Mutex;
use loom::thread::spawn;

use super::{ModelThread, explore, leak};
use crate::timers::{TimerHeap, is_queued};

/// Timer heap of a CPU.
struct Timers(Mutex<TimerHeap<ModelThread>>);

impl Timers {
    fn new() -> &'static Self {
        leak(Self(Mutex::new(TimerHeap::new())))
    }

    fn insert(&self, thread: &'static ModelThread, deadline: u64) {
        self.0.with(|timers| timers.insert(thread, deadline));
    }

    fn next_deadline(&self) -> Option<u64> {
        self.0.with(|timers| timers.next_deadline())
    }

    /// The thread parks with its timer here; from now on other threads may wake it.
    fn park(&self, thread: &'static ModelThread, deadline: u64) {
        assert!(thread.entity.park());
        self.insert(thread, deadline);
    }

    /// A parked thread waits until it is woken, and then removes its timer unless the timer has expired.
    fn resume(&self, thread: &'static ModelThread) {
        thread.event.wait();
        if is_queued(thread) {
            self.0.with(|timers| timers.remove(thread));
        }
    }

    /// The timer interrupt of the CPU.
    fn fire(&self, now: u64) {
        // Expires timers in batches of one, until a batch is empty.
        while let [due] = self.0.with(|timers| timers.expire(now))[..] {
            due.wake();
        }
    }
}

/// When the thread's timer expires, it is the root of its heap, with another timer below it.
#[test]
fn expired_thread_sleeps_again_on_another_cpu() {
    explore(3, || {
        let (first, second) = (Timers::new(), Timers::new());
        let (sleeper, other) = (ModelThread::new(0), ModelThread::new(1));
        first.insert(other, 2);
        first.park(sleeper, 1);
        let interrupt = spawn(move || first.fire(1));
        let waker = spawn(move || sleeper.wake());
        first.resume(sleeper);
        second.insert(sleeper, 3);
        interrupt.join().unwrap();
        waker.join().unwrap();
        assert_eq!(second.next_deadline(), Some(3));
        assert_eq!(first.next_deadline(), Some(2));
        first.fire(2);
        assert_eq!(first.next_deadline(), None);
    });
}

/// The first thread's timer expires while the second thread removes its own timer, which is a child of the
/// first one.
#[test]
fn timer_is_removed_while_another_one_expires() {
    explore(3, || {
        let timers = Timers::new();
        let [expired, woken, last] = [0, 1, 2].map(ModelThread::new);
        timers.insert(last, 3);
        timers.park(woken, 2);
        timers.park(expired, 1);
        let interrupt = spawn(move || timers.fire(1));
        let waker = spawn(move || {
            woken.wake();
            timers.resume(woken);
        });
        timers.resume(expired);
        interrupt.join().unwrap();
        waker.join().unwrap();
        assert_eq!(timers.next_deadline(), Some(3));
        assert!(!is_queued(expired) && !is_queued(woken) && is_queued(last));
    });
}

/// A thread is woken by its timer and by another thread: it is made ready once, and its timer is gone.
#[test]
fn wake_up_and_expiry_make_a_thread_ready_once() {
    explore(3, || {
        let timers = Timers::new();
        let sleeper = ModelThread::new(0);
        timers.park(sleeper, 1);
        let interrupt = spawn(move || timers.fire(1));
        let waker = spawn(move || sleeper.wake());
        timers.resume(sleeper);
        interrupt.join().unwrap();
        waker.join().unwrap();
        assert_eq!(timers.next_deadline(), None);
        assert!(!is_queued(sleeper));
    });
}
