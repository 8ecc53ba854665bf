//! Tests of the rules of `epoll(7)`, one by one.
//!
//! The watched object is a [`Device`], whose readiness the test sets. It counts how often it is examined. It
//! can also change directly after an examination. So tests without threads can reach the states between two
//! steps of the implementation. Models with threads are in `models`.

extern crate std;

use self::wakers::Wakers;
use super::{Epoll, Event};
use crate::{EventFd, Object, Readiness};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll, Waker};
use hermit_abi::{
    EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLPRI, EPOLLRDHUP,
};
use hermit_base::try_alloc::TryArc;
use hermit_interface::Errno;
use std::boxed::Box;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::vec::Vec;

#[derive(Debug)]
pub(super) struct Heap;

impl TryArc for Heap {
    fn arc<T>(value: T) -> Option<Arc<T>> {
        Some(Arc::new(value))
    }
}

/// Without memory.
#[derive(Debug)]
struct NoHeap;

impl TryArc for NoHeap {
    fn arc<T>(_value: T) -> Option<Arc<T>> {
        None
    }
}

pub(super) type Instance = Epoll<parking_lot::RawMutex, Heap>;

pub(super) fn instance() -> Arc<Instance> {
    Arc::new(Instance::new().unwrap())
}

/// Hook that is called once, directly after an object was examined.
#[derive(Default)]
struct Hook(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Debug for Hook {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("Hook")
    }
}

/// An object whose readiness the test sets.
#[derive(Debug, Default)]
struct Device {
    ready: Mutex<Readiness>,
    waiters: Wakers,
    /// Number of times that the object was examined.
    looks: AtomicUsize,
    /// Readiness to which the object changes directly after it was examined.
    then: Mutex<Option<Readiness>>,
    hook: Hook,
}

impl Device {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Changes the readiness without a wake-up, as a read does.
    fn set(&self, ready: Readiness) {
        *self.ready.lock().unwrap() = ready;
    }

    /// Changes the readiness with a wake-up, as an arrival does.
    fn change(&self, ready: Readiness) {
        self.set(ready);
        self.waiters.wake();
    }

    fn wakers(&self) -> usize {
        self.waiters.lock().len()
    }
}

impl Object for Device {
    fn is_watchable(&self) -> bool {
        true
    }

    fn watch(&self, context: &mut Context<'_>) -> Readiness {
        self.looks.fetch_add(1, Relaxed);
        if !self.waiters.has(context) {
            self.waiters.add(context);
        }
        let ready = *self.ready.lock().unwrap();
        if let Some(then) = self.then.lock().unwrap().take() {
            self.change(then);
        }
        let hook = self.hook.0.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        ready
    }

    fn unwatch(&self, context: &Context<'_>) {
        self.waiters.remove(context);
    }
}

const READ: Readiness =
    Readiness { read: true, write: false, read_hang_up: false, hang_up: false, error: false };
const WRITE: Readiness = Readiness { read: false, write: true, ..READ };
const BOTH: Readiness = Readiness { write: true, ..READ };
const NOTHING: Readiness = Readiness { read: false, ..READ };

fn object(device: &Arc<Device>) -> Arc<dyn Object> {
    Arc::clone(device) as _
}

pub(super) const fn event(events: u32, data: u64) -> Event {
    Event { events, data }
}

/// Returns the current events, at most `max`.
fn scan(epoll: &Instance, max: usize) -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    let count = epoll
        .scan(&Context::from_waker(Waker::noop()), max, &mut |event| found.push((event.events, event.data)));
    assert_eq!(count, found.len());
    found
}

/// A task that counts its wake-ups.
#[derive(Debug, Default)]
struct Sleeper(AtomicUsize);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn sleeper() -> (Arc<Sleeper>, Waker) {
    let sleeper = Arc::<Sleeper>::default();
    (Arc::clone(&sleeper), Waker::from(sleeper).clone())
}

fn wait(epoll: &Instance, waker: &Waker) -> Poll<usize> {
    epoll.poll_wait(&Context::from_waker(waker), 10, &mut |_| {})
}

#[test]
fn level_triggered_entry_is_reported_as_long_as_it_is_ready() {
    let (epoll, device) = (instance(), Device::new());
    epoll.add(3, &object(&device), event(EPOLLIN, 7)).unwrap();
    assert_eq!(scan(&epoll, 10), []);
    device.change(BOTH);
    for _ in 0..3 {
        assert_eq!(scan(&epoll, 10), [(EPOLLIN, 7)]);
    }
    device.set(WRITE);
    assert_eq!(scan(&epoll, 10), []);
    assert_eq!(device.wakers(), 1);
}

#[test]
fn edge_triggered_entry_is_reported_once_for_each_change() {
    let (epoll, device) = (instance(), Device::new());
    device.set(READ);
    epoll.add(3, &object(&device), event(EPOLLIN | EPOLLET, 7)).unwrap();
    assert_eq!(scan(&epoll, 10), [(EPOLLIN, 7)]);
    assert_eq!(scan(&epoll, 10), []);
    device.change(READ);
    assert_eq!(scan(&epoll, 10), [(EPOLLIN, 7)]);
    assert_eq!(scan(&epoll, 10), []);
    epoll.modify(3, &object(&device), event(EPOLLIN | EPOLLOUT | EPOLLET, 8)).unwrap();
    assert_eq!(scan(&epoll, 10), [(EPOLLIN, 8)]);
}

#[test]
fn change_while_the_object_is_looked_at_is_reported_by_the_next_scan() {
    let (epoll, device) = (instance(), Device::new());
    epoll.add(3, &object(&device), event(EPOLLIN | EPOLLET, 7)).unwrap();
    device.change(NOTHING);
    *device.then.lock().unwrap() = Some(READ);
    assert_eq!(scan(&epoll, 10), []);
    assert_eq!(scan(&epoll, 10), [(EPOLLIN, 7)]);
    // This also applies to an entry that was ready before.
    *device.then.lock().unwrap() = Some(READ);
    device.change(READ);
    assert_eq!(scan(&epoll, 10), [(EPOLLIN, 7)]);
    assert_eq!(scan(&epoll, 10), [(EPOLLIN, 7)]);
    assert_eq!(scan(&epoll, 10), []);
}

#[test]
fn one_shot_entry_is_disabled_until_it_is_modified() {
    let (epoll, device) = (instance(), Device::new());
    epoll.add(3, &object(&device), event(EPOLLIN | EPOLLONESHOT, 7)).unwrap();
    device.change(READ);
    assert_eq!(scan(&epoll, 10), [(EPOLLIN, 7)]);
    device.change(Readiness { error: true, hang_up: true, ..BOTH });
    assert_eq!(scan(&epoll, 10), []);
    epoll.modify(3, &object(&device), event(EPOLLOUT | EPOLLONESHOT, 8)).unwrap();
    assert_eq!(scan(&epoll, 10), [(EPOLLOUT | EPOLLERR | EPOLLHUP, 8)]);
    assert_eq!(scan(&epoll, 10), []);
}

#[test]
fn errors_and_hang_ups_are_reported_though_not_requested() {
    let (epoll, device) = (instance(), Device::new());
    device.set(Readiness { error: true, hang_up: true, read_hang_up: true, ..BOTH });
    epoll.add(3, &object(&device), event(0, 7)).unwrap();
    assert_eq!(scan(&epoll, 10), [(EPOLLERR | EPOLLHUP, 7)]);
    epoll.modify(3, &object(&device), event(EPOLLRDHUP | EPOLLPRI, 7)).unwrap();
    assert_eq!(scan(&epoll, 10), [(EPOLLERR | EPOLLHUP | EPOLLRDHUP, 7)]);
}

#[test]
fn entries_take_turns_when_there_are_more_than_a_call_takes() {
    let epoll = instance();
    let devices: Vec<_> = (0..5).map(|_| Device::new()).collect();
    for (data, device) in devices.iter().enumerate() {
        device.set(READ);
        epoll.add(3, &object(device), event(EPOLLIN, data as u64)).unwrap();
    }
    let turns: Vec<Vec<u64>> =
        (0..5).map(|_| scan(&epoll, 2).into_iter().map(|(_, data)| data).collect()).collect();
    assert_eq!(turns, [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]]);
    assert_eq!(scan(&epoll, 100).len(), 5);
}

#[test]
fn idle_entries_are_not_looked_at() {
    const COUNT: usize = if cfg!(miri) { 50 } else { 5_000 };
    let epoll = instance();
    let devices: Vec<_> = (0..COUNT).map(|_| Device::new()).collect();
    for (descriptor, device) in (0_u16..).zip(&devices) {
        epoll.add(descriptor.into(), &object(device), event(EPOLLIN | EPOLLET, descriptor.into())).unwrap();
    }
    let looks = || devices.iter().map(|device| device.looks.load(Relaxed)).sum::<usize>();
    assert_eq!(looks(), COUNT);
    for round in 1..=10 {
        devices[COUNT - 5].change(READ);
        assert_eq!(scan(&epoll, 10), [(EPOLLIN, COUNT as u64 - 5)]);
        assert_eq!(scan(&epoll, 10), []);
        assert_eq!(looks(), COUNT + round);
    }
}

#[test]
fn key_is_descriptor_and_open_description() {
    let (epoll, first, second) = (instance(), Device::new(), Device::new());
    let [a, b] = [object(&first), object(&second)];
    epoll.add(3, &a, event(EPOLLIN, 1)).unwrap();
    assert_eq!(epoll.add(3, &a, event(EPOLLIN, 2)), Err(Errno::EEXIST));
    epoll.add(4, &a, event(EPOLLIN, 2)).unwrap();
    epoll.add(3, &b, event(EPOLLIN, 3)).unwrap();
    assert_eq!(epoll.modify(4, &b, event(EPOLLIN, 3)), Err(Errno::ENOENT));
    assert_eq!(epoll.remove(5, &a), Err(Errno::ENOENT));
    first.change(READ);
    assert_eq!(scan(&epoll, 10), [(EPOLLIN, 1), (EPOLLIN, 2)]);
    epoll.remove(3, &a).unwrap();
    assert_eq!(epoll.remove(3, &a), Err(Errno::ENOENT));
    assert_eq!(scan(&epoll, 10), [(EPOLLIN, 2)]);
    second.change(READ);
    assert_eq!(scan(&epoll, 10), [(EPOLLIN, 2), (EPOLLIN, 3)]);
}

#[test]
fn closed_description_leaves_the_set() {
    let (epoll, device) = (instance(), Device::new());
    let open = object(&device);
    epoll.add(3, &open, event(EPOLLIN, 1)).unwrap();
    device.change(READ);
    // Another descriptor still refers to the object.
    drop(open);
    assert_eq!(scan(&epoll, 10), [(EPOLLIN, 1)]);
    drop(device);
    assert_eq!(scan(&epoll, 10), []);
    for data in 0..100 {
        let device = Device::new();
        epoll.add(3, &object(&device), event(EPOLLIN, data)).unwrap();
    }
    // The entry of the closed descriptor is removed when the same number is added again.
    assert!(epoll.shared.set.lock().bound() <= 2);
}

#[test]
fn removed_entry_leaves_no_waker() {
    let (epoll, device) = (instance(), Device::new());
    for _ in 0..10 {
        epoll.add(3, &object(&device), event(EPOLLIN, 1)).unwrap();
        assert_eq!(device.wakers(), 1);
        epoll.remove(3, &object(&device)).unwrap();
        assert_eq!(device.wakers(), 0);
    }
    epoll.add(3, &object(&device), event(EPOLLIN, 1)).unwrap();
    drop(epoll);
    assert_eq!((device.wakers(), Arc::strong_count(&device)), (0, 1));
}

#[test]
fn operations_are_refused_with_linux_errors() {
    #[derive(Debug)]
    struct File;
    impl Object for File {}
    let (epoll, device) = (instance(), Device::new());
    let (file, device): (Arc<dyn Object>, _) = (Arc::new(File), object(&device));
    let own: Arc<dyn Object> = Arc::clone(&epoll) as _;
    assert_eq!(epoll.add(3, &file, event(EPOLLIN, 0)), Err(Errno::EPERM));
    assert_eq!(epoll.modify(3, &file, event(EPOLLIN, 0)), Err(Errno::EPERM));
    assert_eq!(epoll.remove(3, &file), Err(Errno::EPERM));
    assert_eq!(epoll.add(3, &own, event(EPOLLIN, 0)), Err(Errno::EINVAL));
    assert_eq!(epoll.remove(3, &own), Err(Errno::EINVAL));
    // Exclusive entries cannot be one-shot, cannot be modified, and cannot watch an epoll instance.
    let exclusive = EPOLLIN | EPOLLEXCLUSIVE;
    assert_eq!(epoll.add(3, &device, event(exclusive | EPOLLONESHOT, 0)), Err(Errno::EINVAL));
    assert_eq!(epoll.add(3, &(instance() as _), event(exclusive, 0)), Err(Errno::EINVAL));
    epoll.add(3, &device, event(exclusive | EPOLLET, 0)).unwrap();
    assert_eq!(epoll.modify(3, &device, event(EPOLLIN, 0)), Err(Errno::EINVAL));
    assert_eq!(epoll.modify(4, &device, event(exclusive, 0)), Err(Errno::EINVAL));
    assert!(matches!(Epoll::<parking_lot::RawMutex, NoHeap>::new(), Err(Errno::ENOMEM)));
}

#[test]
fn instances_in_each_other_are_readable_if_an_entry_is_ready() {
    let (outer, inner, device) = (instance(), instance(), Device::new());
    let nested: Arc<dyn Object> = Arc::clone(&inner) as _;
    inner.add(3, &object(&device), event(EPOLLIN, 1)).unwrap();
    outer.add(4, &nested, event(EPOLLIN, 2)).unwrap();
    assert_eq!(scan(&outer, 10), []);
    device.change(READ);
    assert_eq!(scan(&outer, 10), [(EPOLLIN, 2)]);
    assert_eq!(scan(&outer, 10), [(EPOLLIN, 2)]);
    assert_eq!(scan(&inner, 10), [(EPOLLIN, 1)]);
    assert_eq!(scan(&outer, 10), [(EPOLLIN, 2)]);
    device.set(NOTHING);
    assert_eq!(scan(&outer, 10), []);
    // A look leaves the event in the ready list, and the event is then delivered only once.
    inner.modify(3, &object(&device), event(EPOLLIN | EPOLLET, 1)).unwrap();
    device.change(READ);
    assert_eq!(scan(&outer, 10), [(EPOLLIN, 2)]);
    assert_eq!(scan(&inner, 10), [(EPOLLIN, 1)]);
    assert_eq!(scan(&outer, 10), []);
}

#[test]
fn nesting_is_limited_and_has_no_cycles() {
    let top_down = [0, 1, 2, 3, 4, 5].map(|_| instance());
    let add = |outer: &Arc<Instance>, inner: &Arc<Instance>| {
        outer.add(3, &(Arc::clone(inner) as _), event(EPOLLIN, 0))
    };
    for pair in top_down[..5].windows(2) {
        add(&pair[0], &pair[1]).unwrap();
    }
    assert_eq!(add(&top_down[4], &top_down[5]), Err(Errno::ELOOP));
    for above in &top_down[1..5] {
        assert_eq!(add(above, &top_down[0]), Err(Errno::ELOOP));
    }
    let bottom_up = [0, 1, 2, 3, 4, 5].map(|_| instance());
    for pair in bottom_up[..5].windows(2) {
        add(&pair[1], &pair[0]).unwrap();
    }
    assert_eq!(add(&bottom_up[5], &bottom_up[4]), Err(Errno::ELOOP));
    // Joining three levels and two levels makes five, the maximum.
    let (lower, upper) = ([0, 1].map(|_| instance()), [0, 1, 2].map(|_| instance()));
    add(&lower[0], &lower[1]).unwrap();
    upper.windows(2).for_each(|pair| add(&pair[0], &pair[1]).unwrap());
    add(&upper[2], &lower[0]).unwrap();
    assert_eq!(add(&lower[1], &instance()), Err(Errno::ELOOP));
}

#[test]
fn event_wakes_one_sleeper_and_what_is_left_the_next() {
    let (epoll, device) = (instance(), Device::new());
    epoll.add(3, &object(&device), event(EPOLLIN, 1)).unwrap();
    let ((first, waker), (second, other)) = (sleeper(), sleeper());
    assert_eq!((wait(&epoll, &waker), wait(&epoll, &other)), (Poll::Pending, Poll::Pending));
    device.change(READ);
    assert_eq!((first.0.load(Relaxed), second.0.load(Relaxed)), (1, 0));
    // The entry is still ready, so another thread is woken.
    assert_eq!(wait(&epoll, &waker), Poll::Ready(1));
    assert_eq!((first.0.load(Relaxed), second.0.load(Relaxed)), (1, 1));
}

#[test]
fn sleeper_that_leaves_passes_its_wake_up_on() {
    let (epoll, device) = (instance(), Device::new());
    epoll.add(3, &object(&device), event(EPOLLIN | EPOLLET, 1)).unwrap();
    let ((_, waker), (second, other)) = (sleeper(), sleeper());
    assert_eq!((wait(&epoll, &waker), wait(&epoll, &other)), (Poll::Pending, Poll::Pending));
    device.change(READ);
    // The first thread was woken, but takes no event because its timeout has expired. So it wakes the other
    // thread.
    assert_eq!(epoll.scan(&Context::from_waker(&waker), 0, &mut |_| {}), 0);
    assert_eq!(second.0.load(Relaxed), 1);
    assert_eq!(wait(&epoll, &other), Poll::Ready(1));
}

#[test]
fn sleeper_is_woken_by_an_entry_that_is_added_or_modified() {
    let (epoll, device) = (instance(), Device::new());
    let (sleeper, waker) = sleeper();
    device.set(READ);
    assert_eq!(wait(&epoll, &waker), Poll::Pending);
    epoll.add(3, &object(&device), event(EPOLLOUT, 1)).unwrap();
    assert_eq!(sleeper.0.load(Relaxed), 0);
    epoll.modify(3, &object(&device), event(EPOLLIN, 1)).unwrap();
    assert_eq!(sleeper.0.load(Relaxed), 1);
    assert_eq!(wait(&epoll, &waker), Poll::Ready(1));
}

#[test]
fn eventfd_is_watched() {
    let epoll = instance();
    let counter: Arc<dyn Object> = Arc::new(EventFd::<parking_lot::RawMutex>::new(0, false, true));
    epoll.add(3, &counter, event(EPOLLIN | EPOLLET, 1)).unwrap();
    assert_eq!(scan(&epoll, 10), []);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        assert_eq!(counter.poll_write(&mut context, &1_u64.to_le_bytes()), Poll::Ready(Ok(8)));
        assert_eq!(scan(&epoll, 10), [(EPOLLIN, 1)]);
        assert_eq!(scan(&epoll, 10), []);
    }
}

mod changes;
mod exclusive;
mod model;
mod wakers;
