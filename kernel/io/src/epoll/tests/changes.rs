//! Tests of objects that change while an instance examines them, and of closed objects that change.

extern crate std;

use super::{Device, NOTHING, READ, WRITE, event, instance, object, scan, sleeper, wait};
use crate::{EventFd, Object, ReadBuffer, ShutdownFd, ShutdownRequests};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll, Waker};
use hermit_abi::{EPOLLET, EPOLLIN, EPOLLOUT};
use std::boxed::Box;
use std::sync::Arc;

/// A change that makes the inner entry ready again reaches the edge-triggered outer entry, even after a read
/// that the inner instance has not noticed.
#[test]
fn edge_of_an_instance_is_seen_after_a_read_of_what_it_watches() {
    let (outer, inner) = (instance(), instance());
    let counter: Arc<dyn Object> = Arc::new(EventFd::<parking_lot::RawMutex>::new(0, false, true));
    let nested: Arc<dyn Object> = Arc::clone(&inner) as _;
    inner.add(3, &counter, event(EPOLLIN, 1)).unwrap();
    outer.add(4, &nested, event(EPOLLIN | EPOLLET, 2)).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut add = || counter.poll_write(&mut context, &1_u64.to_le_bytes());
    assert_eq!(add(), Poll::Ready(Ok(8)));
    assert_eq!(scan(&outer, 10), [(EPOLLIN, 2)]);
    assert_eq!(scan(&inner, 10), [(EPOLLIN, 1)]);
    let mut memory = [MaybeUninit::uninit(); 8];
    let mut buffer = ReadBuffer::new(&mut memory);
    assert_eq!(counter.poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer), Poll::Ready(Ok(())));
    let (sleeper, waker) = sleeper();
    assert_eq!(wait(&outer, &waker), Poll::Pending);
    assert_eq!(sleeper.0.load(Relaxed), 0);
    assert_eq!(add(), Poll::Ready(Ok(8)));
    assert_eq!(sleeper.0.load(Relaxed), 1);
    assert_eq!(wait(&outer, &waker), Poll::Ready(1));
}

#[test]
fn scan_reports_an_entry_once_though_it_changes_meanwhile() {
    for modes in [0, EPOLLET] {
        let (epoll, device) = (instance(), Device::new());
        epoll.add(3, &object(&device), event(EPOLLIN | modes, 7)).unwrap();
        device.change(READ);
        let mut deliver = |_| {
            device.change(READ);
            epoll.modify(3, &object(&device), event(EPOLLIN | modes, 7)).unwrap();
        };
        for _ in 0..2 {
            assert_eq!(epoll.scan(&Context::from_waker(Waker::noop()), 10, &mut deliver), 1);
        }
    }
}

#[test]
fn look_ends_though_the_object_changes_at_each() {
    let (outer, inner, device) = (instance(), instance(), Device::new());
    inner.add(3, &object(&device), event(EPOLLIN, 1)).unwrap();
    outer.add(4, &(Arc::clone(&inner) as _), event(EPOLLIN, 2)).unwrap();
    device.change(NOTHING);
    *device.then.lock().unwrap() = Some(NOTHING);
    let looks = device.looks.load(Relaxed);
    assert_eq!(scan(&outer, 10), []);
    assert_eq!(device.looks.load(Relaxed), looks + 1);
}

/// The examining thread has seen the readiness from before the entry was modified.
#[test]
fn modification_while_the_object_is_looked_at_is_reported_by_the_next_scan() {
    let (epoll, device) = (instance(), Device::new());
    epoll.add(3, &object(&device), event(EPOLLIN, 7)).unwrap();
    device.change(READ);
    let (other, same) = (Arc::clone(&epoll), Arc::clone(&device));
    *device.hook.0.lock().unwrap() = Some(Box::new(move || {
        same.set(WRITE);
        other.modify(3, &object(&same), event(EPOLLIN | EPOLLOUT, 8)).unwrap();
    }));
    assert_eq!(scan(&epoll, 10), []);
    assert_eq!(scan(&epoll, 10), [(EPOLLOUT, 8)]);
}

#[test]
fn closed_shutdownfd_leaves_no_waker() {
    let requests: &'static ShutdownRequests<parking_lot::RawMutex> =
        Box::leak(Box::new(ShutdownRequests::new()));
    let epoll = instance();
    for _ in 0..3 {
        let object: Arc<dyn Object> = Arc::new(ShutdownFd::new(requests, false));
        epoll.add(3, &object, event(EPOLLIN, 1)).unwrap();
        assert_eq!(requests.waiters().len(), 1);
        drop(object);
        assert_eq!(requests.waiters().len(), 0);
        assert_eq!(scan(&epoll, 10), []);
    }
}
