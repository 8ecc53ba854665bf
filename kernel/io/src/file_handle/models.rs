//! Models of the position, which moves between a handle and its file. loom's `strong_count` already
//! synchronises. So the models explore the order of the calls, but not whether the fence after `strong_count`
//! is needed.

use core::sync::atomic::Ordering::Relaxed;

use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Mutex};
use loom::thread::spawn;

use super::{FileHandle, Positioned};

/// loom's preemption bound. The variable `LOOM_MAX_PREEMPTIONS` can raise it.
const SWITCHES: usize = 3;

/// A file with a lock that calls on the slow path take.
#[derive(Debug)]
struct File {
    position: AtomicU64,
    lock: Mutex<()>,
}

impl File {
    fn advance(&self) {
        let _guard = self.lock.lock().unwrap();
        self.position.store(self.position.load(Relaxed) + 1, Relaxed);
    }
}

impl Positioned for File {
    fn position(&self) -> u64 {
        self.position.load(Relaxed)
    }

    fn set_position(&self, position: u64) {
        self.position.store(position, Relaxed);
    }
}

/// The slot of a descriptor.
type Slot = Mutex<FileHandle<File>>;

fn slot() -> Arc<Slot> {
    let file = File { position: AtomicU64::new(0), lock: Mutex::new(()) };
    Arc::new(Mutex::new(FileHandle::new(Arc::new(file))))
}

/// Moves the position by one, as a read does: in the handle, or with a reference and without the lock.
fn advance(slot: &Slot) {
    let mut handle = slot.lock().unwrap();
    if handle.with_position(|_, position| Some(((), position + 1))).is_none() {
        let reference = handle.share();
        drop(handle);
        reference.file().advance();
    }
}

/// Moves the position by one through another descriptor, which is closed afterwards.
fn advance_duplicate(slot: &Slot) {
    let duplicate = slot.lock().unwrap().share();
    duplicate.file().advance();
}

/// The position at the end, when there is no other reference.
fn position(slot: &Slot) -> u64 {
    slot.lock().unwrap().with_position(|_, position| Some((position, position))).unwrap()
}

#[test]
fn position_taken_while_the_last_duplicate_is_closed_has_its_calls() {
    hermit_models::explore(SWITCHES, || {
        let slot = slot();
        advance(&slot);
        let other = Arc::clone(&slot);
        let thread = spawn(move || advance_duplicate(&other));
        advance(&slot);
        advance(&slot);
        thread.join().unwrap();
        assert_eq!(position(&slot), 4);
    });
}

#[test]
fn calls_of_two_threads_beside_a_duplicate_use_each_position_once() {
    hermit_models::explore(SWITCHES, || {
        let slot = slot();
        let threads = [advance, advance_duplicate].map(|call| {
            let slot = Arc::clone(&slot);
            spawn(move || call(&slot))
        });
        advance(&slot);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(position(&slot), 3);
    });
}
