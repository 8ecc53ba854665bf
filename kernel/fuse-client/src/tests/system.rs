//! The kernel below the file systems, and a loop that runs calls.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::Cell;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use hermit_fs::{FileSystem, PAGE_SIZE, RamFs, System, Time, Vfs};

/// Maximum number of polls of a call: more than any needs.
const MAX_POLLS: usize = 100_000;

/// Size in bytes of a ramfs: Miri takes minutes to fill a large one.
pub(super) const RAMFS_SIZE: usize = if cfg!(miri) { 1 << 18 } else { 1 << 22 };

std::thread_local! {
    /// The time in nanoseconds, which changes only as a test says.
    pub(super) static MONOTONIC: Cell<u64> = const { Cell::new(0) };
}

#[derive(Debug)]
pub(super) struct TestSystem;

impl System for TestSystem {
    type RawLock = parking_lot::RawMutex;
    type Page = Box<[u8; PAGE_SIZE]>;

    fn allocate_page(start: &[u8]) -> Option<Self::Page> {
        let mut page = Box::new([0; PAGE_SIZE]);
        page[..start.len()].copy_from_slice(start);
        Some(page)
    }

    fn arc_with<T>(make: impl FnOnce() -> T) -> Option<Arc<T>> {
        Some(Arc::new(make()))
    }

    fn now() -> Time {
        Time { seconds: 1_000_000_000, nanoseconds: 5 }
    }

    fn monotonic() -> u64 {
        MONOTONIC.get()
    }

    fn tick() -> u64 {
        0
    }
}

/// Polls a call until it ends.
#[track_caller]
pub(super) fn run<T>(call: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    let mut call = pin!(call);
    for _ in 0..MAX_POLLS {
        if let Poll::Ready(result) = call.as_mut().poll(&mut context) {
            return result;
        }
    }
    panic!("the call does not end");
}

pub(super) fn ramfs() -> RamFs<TestSystem> {
    RamFs::new(RAMFS_SIZE as u64).expect("memory")
}

/// A virtual file system with one mounted on `/m`.
pub(super) fn mounted(file_system: Arc<dyn FileSystem<TestSystem>>) -> Vfs<TestSystem> {
    let vfs = Vfs::new(Arc::new(ramfs())).expect("memory").with_write_back(|| true);
    run(vfs.create_directory(b"/m", 0o755)).expect("a directory");
    run(vfs.mount(file_system, b"/m", false)).expect("a mount");
    vfs
}
