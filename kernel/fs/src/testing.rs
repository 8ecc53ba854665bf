//! Stand-in for the kernel in tests of the file systems.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::Cell;
use core::pin::pin;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI64, AtomicUsize};
use core::task::{Context, Poll, Waker};

use std::thread_local;

use crate::impls::RamFs;
use crate::interface::{PAGE_SIZE, System, Time};
use crate::vfs::Vfs;

/// The time in seconds. Each read of the clock advances it by a second.
static CLOCK: AtomicI64 = AtomicI64::new(1_000_000_000);

thread_local! {
    /// The tick. Only tests change it.
    pub(crate) static TICK: Cell<u64> = const { Cell::new(0) };

    /// Number of `Arc`s that can be allocated before allocations fail.
    pub(crate) static ARCS: Cell<usize> = const { Cell::new(usize::MAX) };

    /// The time in nanoseconds. Only tests change it.
    pub(crate) static MONOTONIC: Cell<u64> = const { Cell::new(0) };
}

#[derive(Debug)]
pub(crate) struct TestSystem;

impl System for TestSystem {
    type RawLock = parking_lot::RawMutex;
    type Page = Box<[u8; PAGE_SIZE]>;

    fn allocate_page(start: &[u8]) -> Option<Self::Page> {
        let mut page = Box::new([0; PAGE_SIZE]);
        page[..start.len()].copy_from_slice(start);
        Some(page)
    }

    fn arc_with<T>(make: impl FnOnce() -> T) -> Option<Arc<T>> {
        let left = ARCS.get().checked_sub(1)?;
        ARCS.set(left);
        Some(Arc::new(make()))
    }

    fn now() -> Time {
        Time { seconds: CLOCK.fetch_add(1, Relaxed), nanoseconds: 0 }
    }

    fn monotonic() -> u64 {
        MONOTONIC.get()
    }

    fn tick() -> u64 {
        TICK.get()
    }
}

/// Number of wake-ups of a task.
#[derive(Debug, Default)]
pub(crate) struct WakeCount(Arc<AtomicUsize>);

impl WakeCount {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

struct CountedTask(Arc<AtomicUsize>);

impl Wake for CountedTask {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Creates a task that counts its wake-ups. Returns the counter and the waker.
pub(crate) fn wake_count() -> (WakeCount, Waker) {
    let count = Arc::new(AtomicUsize::new(0));
    let task = Arc::new(CountedTask(Arc::clone(&count)));
    (WakeCount(count), Waker::from(task))
}

/// Polls a call once. The call must not be pending.
#[track_caller]
pub(crate) fn run<T>(call: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(call).poll(&mut context) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the call is pending"),
    }
}

/// Creates a ramfs of `size` bytes, and a virtual file system whose root is this ramfs.
pub(crate) fn vfs(size: u64) -> (Arc<RamFs<TestSystem>>, Vfs<TestSystem>) {
    let root = Arc::new(RamFs::<TestSystem>::new(size).expect("memory"));
    let vfs = Vfs::new(root.clone()).expect("memory").with_write_back(|| true);
    (root, vfs)
}
