//! Models for [loom](https://docs.rs/loom), which tries every order in which CPUs can do their steps.
//!
//! The package `hermit-models` compiles this crate with `cfg(loom)`: `cargo test -p hermit-models --test io`.
//! A thread that waits here has no timeout: a lost wake-up ends as a deadlock, which loom reports.

extern crate std;

use super::{Epoll, Event};
use crate::{Object, Readiness};
use core::task::{Context, Poll, Waker};
use hermit_abi::{EPOLLET, EPOLLIN};
use hermit_base::try_alloc::TryArc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::SeqCst;
use loom::sync::{Condvar, Mutex};
use loom::thread::spawn;
use std::sync::Arc;
use std::task::Wake;
use std::vec::Vec;

/// loom's preemption bound. The variable `LOOM_MAX_PREEMPTIONS` can raise it.
const SWITCHES: usize = 3;

fn explore(model: impl Fn() + Send + Sync + 'static) {
    hermit_models::explore(SWITCHES, model);
}

#[derive(Debug)]
struct Heap;

impl TryArc for Heap {
    fn arc<T>(value: T) -> Option<Arc<T>> {
        Some(Arc::new(value))
    }
}

type Instance = Epoll<parking_lot::RawMutex, Heap>;

/// An object from which bytes can be read, one at a time.
#[derive(Debug)]
struct Device {
    bytes: AtomicUsize,
    waiters: Mutex<Vec<Waker>>,
}

impl Device {
    fn new() -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), waiters: Mutex::new(Vec::new()) })
    }

    /// A byte arrives.
    fn arrive(&self) {
        self.bytes.fetch_add(1, SeqCst);
        let waiters = core::mem::take(&mut *self.waiters.lock().unwrap());
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Reads one byte, if there is one.
    fn read(&self) -> bool {
        self.bytes.fetch_update(SeqCst, SeqCst, |bytes| bytes.checked_sub(1)).is_ok()
    }
}

impl Object for Device {
    fn is_watchable(&self) -> bool {
        true
    }

    fn watch(&self, context: &mut Context<'_>) -> Readiness {
        let mut waiters = self.waiters.lock().unwrap();
        if !waiters.iter().any(|waker| waker.will_wake(context.waker())) {
            waiters.push(context.waker().clone());
        }
        drop(waiters);
        Readiness { read: self.bytes.load(SeqCst) > 0, ..Readiness::default() }
    }

    fn unwatch(&self, context: &Context<'_>) {
        self.waiters.lock().unwrap().retain(|waker| !waker.will_wake(context.waker()));
    }
}

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

    /// Waits for an event.
    fn wait(self: &Arc<Self>, epoll: &Instance) {
        let waker = Waker::from(Arc::clone(self));
        while epoll.poll_wait(&Context::from_waker(&waker), 8, &mut |_| {}) == Poll::Pending {
            self.sleep();
        }
    }
}

/// An instance that watches devices, with the descriptor numbers from 0 on.
fn watching(devices: &[&Arc<Device>], modes: u32) -> Arc<Instance> {
    let epoll = Arc::new(Instance::new().unwrap());
    for (descriptor, device) in (0..).zip(devices) {
        let object: Arc<dyn Object> = Arc::clone(*device) as _;
        epoll.add(descriptor, &object, Event { events: EPOLLIN | modes, data: 0 }).unwrap();
    }
    epoll
}

#[test]
fn edge_wakes_a_thread_that_is_about_to_sleep() {
    explore(|| {
        let device = Device::new();
        let epoll = watching(&[&device], EPOLLET);
        let waiter = {
            let (epoll, device) = (Arc::clone(&epoll), Arc::clone(&device));
            spawn(move || read_two(&epoll, &device))
        };
        device.arrive();
        device.arrive();
        waiter.join().unwrap();
    });
}

/// Reads two bytes. The second byte may have an event of its own, or share the event of the first byte.
fn read_two(epoll: &Instance, device: &Device) {
    let sleeper = Sleeper::new();
    let mut bytes = 0;
    while bytes < 2 {
        sleeper.wait(epoll);
        while device.read() {
            bytes += 1;
        }
    }
}

#[test]
fn each_of_two_events_reaches_one_of_two_threads() {
    explore(|| {
        let (first, second) = (Device::new(), Device::new());
        let epoll = watching(&[&first, &second], EPOLLET);
        let waiter = {
            let epoll = Arc::clone(&epoll);
            // A thread takes only one event at a time, so that each thread gets an event.
            spawn(move || wait_for_one(&epoll))
        };
        let arrival = spawn(move || {
            first.arrive();
            second.arrive();
            // The devices stay.
            (first, second)
        });
        wait_for_one(&epoll);
        waiter.join().unwrap();
        arrival.join().unwrap();
    });
}

fn wait_for_one(epoll: &Instance) {
    let sleeper = Sleeper::new();
    let waker = Waker::from(Arc::clone(&sleeper));
    while epoll.poll_wait(&Context::from_waker(&waker), 1, &mut |_| {}) == Poll::Pending {
        sleeper.sleep();
    }
}

#[test]
fn thread_that_stops_waiting_leaves_the_event_to_another() {
    explore(|| {
        let device = Device::new();
        let epoll = watching(&[&device], EPOLLET);
        let impatient = {
            let (epoll, object) = (Arc::clone(&epoll), Arc::clone(&device) as _);
            spawn(move || stop_waiting(&epoll, &object))
        };
        let arrival = {
            let device = Arc::clone(&device);
            spawn(move || device.arrive())
        };
        Sleeper::new().wait(&epoll);
        impatient.join().unwrap();
        arrival.join().unwrap();
    });
}

/// Waits with a timeout of 0. If it gets an event nevertheless, makes the event occur again, for another
/// thread.
fn stop_waiting(epoll: &Instance, object: &Arc<dyn Object>) {
    let waker = Waker::from(Sleeper::new());
    let context = Context::from_waker(&waker);
    let is_taken =
        epoll.poll_wait(&context, 8, &mut |_| {}).is_ready() || epoll.scan(&context, 8, &mut |_| {}) > 0;
    if is_taken {
        epoll.modify(0, object, Event { events: EPOLLIN, data: 0 }).unwrap();
    }
}

#[test]
fn removal_during_a_look_leaves_no_waker_and_no_event() {
    explore(|| {
        let device = Device::new();
        let object: Arc<dyn Object> = Arc::clone(&device) as _;
        let epoll = watching(&[&device], 0);
        device.arrive();
        let looker = {
            let epoll = Arc::clone(&epoll);
            spawn(move || epoll.scan(&Context::from_waker(Waker::noop()), 8, &mut |_| {}))
        };
        epoll.remove(0, &object).unwrap();
        assert_eq!(epoll.scan(&Context::from_waker(Waker::noop()), 8, &mut |_| {}), 0);
        looker.join().unwrap();
        assert!(device.waiters.lock().unwrap().is_empty());
    });
}

#[test]
fn change_of_an_entry_is_not_lost_while_its_object_changes() {
    explore(|| {
        let device = Device::new();
        let object: Arc<dyn Object> = Arc::clone(&device) as _;
        let epoll = watching(&[], 0);
        epoll.add(0, &object, Event { events: EPOLLET, data: 0 }).unwrap();
        let waiter = {
            let epoll = Arc::clone(&epoll);
            spawn(move || Sleeper::new().wait(&epoll))
        };
        let arrival = {
            let device = Arc::clone(&device);
            spawn(move || device.arrive())
        };
        epoll.modify(0, &object, Event { events: EPOLLIN | EPOLLET, data: 0 }).unwrap();
        waiter.join().unwrap();
        arrival.join().unwrap();
    });
}

#[test]
fn instance_in_another_wakes_its_thread() {
    explore(|| {
        let device = Device::new();
        let inner = watching(&[&device], 0);
        let outer = Arc::new(Instance::new().unwrap());
        outer.add(9, &(Arc::clone(&inner) as _), Event { events: EPOLLIN, data: 0 }).unwrap();
        let waiter = {
            let outer = Arc::clone(&outer);
            spawn(move || Sleeper::new().wait(&outer))
        };
        // Another thread examines the entry meanwhile and leaves it ready.
        let other = {
            let inner = Arc::clone(&inner);
            spawn(move || inner.scan(&Context::from_waker(Waker::noop()), 8, &mut |_| {}))
        };
        device.arrive();
        waiter.join().unwrap();
        other.join().unwrap();
    });
}
