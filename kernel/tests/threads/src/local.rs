//! Thread-local values are separate, and are dropped when their thread ends.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::arguments::Settings;

/// Counts its drops.
struct DropCounter(Arc<AtomicUsize>);

impl Drop for DropCounter {
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
    static COUNTERS: RefCell<Vec<DropCounter>> = const { RefCell::new(Vec::new()) };
    static LAZY_COUNTERS: RefCell<Vec<DropCounter>> = RefCell::new(Vec::with_capacity(1));
}

pub(crate) fn tls(_: &Settings) {
    let before = NUMBER.get();
    let drops = Arc::new(AtomicUsize::new(0));
    for round in 0..3 {
        let threads: Vec<_> = (0..20)
            .map(|index| {
                let drops = Arc::clone(&drops);
                thread::spawn(move || check_and_change(index, &drops))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a thread panicked"));
        let dropped = drops.load(Ordering::Acquire);
        assert_eq!(dropped, (round + 1) * 20 * 4, "not everything was dropped when its thread had ended");
    }
    assert_eq!(NUMBER.get(), before, "other threads changed this thread's value");
}

/// Checks the initial values in a new thread, and changes them while other threads change theirs.
fn check_and_change(index: usize, drops: &Arc<AtomicUsize>) {
    assert_eq!(NUMBER.get(), 5, "a new thread has an old value");
    assert_eq!(ZEROES.get(), [0; 50], "a new thread's zeroes are none");
    TEXT.with_borrow(|text| assert_eq!(text, "made when first used"));
    let value = index + 100;
    NUMBER.set(value);
    TEXT.with_borrow_mut(|text| *text = value.to_string());
    COUNTERS.with_borrow_mut(|counters| counters.extend((0..3).map(|_| DropCounter(Arc::clone(drops)))));
    LAZY_COUNTERS.with_borrow_mut(|counters| counters.push(DropCounter(Arc::clone(drops))));
    for _ in 0..20 {
        thread::yield_now();
        assert_eq!(NUMBER.get(), value, "another thread changed this thread's value");
        TEXT.with_borrow(|text| assert_eq!(*text, value.to_string()));
    }
}
