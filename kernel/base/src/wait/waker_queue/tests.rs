//! Compares the queue with a simple model, and checks the cost of its operations.

extern crate std;

use super::WakerQueue;
use core::cell::Cell;
use core::task::Waker;
use proptest::collection::vec;
use proptest::{prop_assert, prop_assert_eq, proptest};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::thread_local;
use std::vec::Vec;

thread_local! {
    /// Number of accesses to slots.
    static ACCESSES: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn count_access() {
    ACCESSES.set(ACCESSES.get() + 1);
}

/// Numbers of the tasks that have been woken, in their order.
type Woken = Arc<Mutex<Vec<usize>>>;

struct Task(usize, Woken);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// Wakers of tasks with the numbers from 0 on.
fn wakers(count: usize) -> (Vec<Waker>, Woken) {
    let woken = Woken::default();
    let wakers = (0..count).map(|number| Waker::from(Arc::new(Task(number, Arc::clone(&woken))))).collect();
    (wakers, woken)
}

/// Index of a waker.
fn number(wakers: &[Waker], waker: Option<Waker>) -> Option<usize> {
    let waker = waker?;
    wakers.iter().position(|other| other.will_wake(&waker))
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
    fn queue_agrees_with_a_deque(steps in vec((0..16_u8, 0..100_usize), 0..if cfg!(miri) { 60 } else { 600 })) {
        let (wakers, woken) = wakers(100);
        let mut queue = WakerQueue::new();
        let mut model = VecDeque::new();
        for (step, index) in steps {
            prop_assert_eq!(queue.contains(&wakers[index]), model.contains(&index));
            match step {
                0..=9 => {
                    queue.add(&wakers[index]).unwrap();
                    if !model.contains(&index) {
                        model.push_back(index);
                    }
                }
                10..=12 => {
                    let removed = number(&wakers, queue.remove(&wakers[index]));
                    let position = model.iter().position(|&other| other == index);
                    prop_assert_eq!(removed, position.and_then(|position| model.remove(position)));
                }
                13 | 14 => prop_assert_eq!(number(&wakers, queue.pop()), model.pop_front()),
                // All are woken, once in ten times that this is drawn.
                _ if index < 10 => {
                    queue.take().wake();
                    prop_assert!(core::mem::take(&mut *woken.lock().unwrap()).into_iter().eq(model.drain(..)));
                }
                _ => {}
            }
        }
        queue.wake();
        prop_assert!(woken.lock().unwrap().iter().eq(&model));
    }
}

/// Returns the number of accesses to slots per waker. `count` tasks wait, are woken, and wait again. Then the
/// second half of them stops waiting.
fn accesses_per_waker(count: usize) -> usize {
    let (wakers, woken) = wakers(count);
    let mut queue = WakerQueue::new();
    ACCESSES.set(0);
    wakers.iter().for_each(|waker| queue.add(waker).unwrap());
    wakers.iter().for_each(|waker| queue.add(waker).unwrap());
    queue.take().wake();
    wakers.iter().for_each(|waker| queue.add(waker).unwrap());
    wakers.iter().skip(count / 2).for_each(|waker| assert!(queue.remove(waker).is_some()));
    while let Some(waker) = queue.pop() {
        waker.wake();
    }
    let expected = (0..count).chain(0..count / 2);
    assert!(woken.lock().unwrap().iter().copied().eq(expected));
    ACCESSES.get() / count
}

#[test]
#[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
fn operations_take_constant_time() {
    let counts: &[usize] = if cfg!(miri) { &[100] } else { &[100, 1_000, 10_000] };
    for &count in counts {
        let accesses = accesses_per_waker(count);
        std::println!("{count} wakers: {accesses} accesses to slots for each");
        // It is about 27. A linear search would make thousands of accesses.
        assert!(accesses < 60, "{accesses} accesses for each of {count} wakers");
    }
}
