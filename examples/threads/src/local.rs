//! What is local to a thread is its own, and is dropped when the thread ends.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::arguments::Settings;

/// Counts when it is dropped.
struct Noisy(Arc<AtomicUsize>);

impl Drop for Noisy {
    fn drop(&mut self) {
        // A destructor may use the heap and other thread-local values.
        let own = NUMBER.try_with(Cell::get).unwrap_or_default();
        let heap = vec![own; 100];
        assert!(heap.iter().all(|&number| number == own), "the heap is damaged");
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(5) };
    static ZEROES: Cell<[u64; 50]> = const { Cell::new([0; 50]) };
    static TEXT: RefCell<String> = RefCell::new("made when first used".to_owned());
    static NOISY: RefCell<Vec<Noisy>> = const { RefCell::new(Vec::new()) };
    static LATE: RefCell<Vec<Noisy>> = RefCell::new(Vec::with_capacity(1));
}

pub(crate) fn tls(_: &Settings) {
    let before = NUMBER.get();
    let drops = Arc::new(AtomicUsize::new(0));
    for round in 0..3 {
        let threads: Vec<_> = (0..20)
            .map(|index| {
                let drops = Arc::clone(&drops);
                thread::spawn(move || change(index, &drops))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a thread panicked"));
        let dropped = drops.load(Ordering::Acquire);
        assert_eq!(dropped, (round + 1) * 20 * 4, "not everything was dropped when its thread had ended");
    }
    assert_eq!(NUMBER.get(), before, "other threads changed this thread's value");
}

/// Finds the values as a new thread must, and changes them while others change theirs.
fn change(index: usize, drops: &Arc<AtomicUsize>) {
    assert_eq!(NUMBER.get(), 5, "a new thread has an old value");
    assert_eq!(ZEROES.get(), [0; 50], "a new thread's zeroes are none");
    TEXT.with_borrow(|text| assert_eq!(text, "made when first used"));
    let value = index + 100;
    NUMBER.set(value);
    TEXT.with_borrow_mut(|text| *text = value.to_string());
    NOISY.with_borrow_mut(|noisy| noisy.extend((0..3).map(|_| Noisy(Arc::clone(drops)))));
    LATE.with_borrow_mut(|late| late.push(Noisy(Arc::clone(drops))));
    for _ in 0..20 {
        thread::yield_now();
        assert_eq!(NUMBER.get(), value, "another thread changed this thread's value");
        TEXT.with_borrow(|text| assert_eq!(*text, value.to_string()));
    }
}
