//! Exclusive entries.

extern crate std;

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::vec::Vec;

use hermit_abi::{EPOLLEXCLUSIVE, EPOLLIN};

use super::{event, instance, sleeper, wait};
use crate::{EventFd, Object, ReadBuffer};

/// As on Linux: 100 instances watch the same counter with exclusive entries, and one instance with an entry
/// that is not exclusive. A write wakes a thread of the latter, and a thread of only one of the 100
/// instances.
#[test]
#[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
fn event_wakes_one_of_many_exclusive_entries() {
    let counter: Arc<dyn Object> = Arc::new(EventFd::<parking_lot::RawMutex>::new(0, true, true));
    let write = |number: u64| {
        let written = counter.poll_write(&mut Context::from_waker(Waker::noop()), &number.to_le_bytes());
        assert_eq!(written, Poll::Ready(Ok(8)));
    };
    let read = || {
        let mut bytes = [MaybeUninit::uninit(); 8];
        let mut context = Context::from_waker(Waker::noop());
        counter.poll_read(&mut context, &mut ReadBuffer::new(&mut bytes)).is_ready()
    };
    let watching = |modes: u32| {
        let (epoll, (sleeper, waker)) = (instance(), sleeper());
        epoll.add(3, &counter, event(EPOLLIN | modes, 1)).unwrap();
        assert_eq!(wait(&epoll, &waker), Poll::Pending);
        (epoll, sleeper, waker)
    };
    let (all, exclusive) = (watching(0), (0..100).map(|_| watching(EPOLLEXCLUSIVE)).collect::<Vec<_>>());
    let woken = || exclusive.iter().filter(|(_, sleeper, _)| sleeper.0.load(Relaxed) > 0).count();
    write(2);
    assert_eq!((all.1.0.load(Relaxed), woken()), (1, 1));
    // The woken thread takes one of the two events, so the next instance is woken.
    assert_eq!(wait(&exclusive[0].0, &exclusive[0].2), Poll::Ready(1));
    assert!(read());
    assert_eq!(woken(), 2);
    assert_eq!(wait(&exclusive[1].0, &exclusive[1].2), Poll::Ready(1));
    assert!(read());
    assert_eq!(woken(), 2);
    // A removed entry is not woken, so the event goes to the next entry.
    exclusive[2].0.remove(3, &counter).unwrap();
    write(1);
    assert_eq!(exclusive[3].1.0.load(Relaxed), 1);
}
