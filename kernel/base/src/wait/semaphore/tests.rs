//! Property test: compares the semaphore with a model, which is a queue of tasks in the order of their
//! arrival.

extern crate std;

use core::task::{Poll, Waker};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Wake;
use std::vec::Vec;

use proptest::collection::vec;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{Acquisition, Semaphore};

/// Number of tasks.
const TASKS: usize = 12;

struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

fn wakers(count: usize) -> Vec<Waker> {
    (0..count).map(|_| Waker::from(Arc::new(Task))).collect()
}

/// A semaphore, the tasks that use it, and the expected state of both.
struct Model {
    semaphore: Semaphore,
    wakers: Vec<Waker>,
    acquisitions: Vec<Acquisition>,
    permits: usize,
    /// Tasks that wait for a permit.
    waiters: VecDeque<usize>,
    /// For each task, true if it owns a permit. A task that has not noticed this yet is in `woken`, too.
    owners: Vec<bool>,
    woken: Vec<bool>,
}

impl Model {
    fn new(permits: usize) -> Self {
        Self {
            semaphore: Semaphore::new(permits),
            wakers: wakers(TASKS),
            acquisitions: (0..TASKS).map(|_| Acquisition::default()).collect(),
            permits,
            waiters: VecDeque::new(),
            owners: std::vec![false; TASKS],
            woken: std::vec![false; TASKS],
        }
    }

    /// Makes a task poll: for the first time, again because it was woken, or without a reason. Returns true
    /// if the result is as expected.
    fn poll(&mut self, task: usize) -> bool {
        if self.owners[task] && !self.woken[task] {
            return true;
        }
        if !self.owners[task] && !self.waiters.contains(&task) {
            if self.permits > 0 {
                self.permits -= 1;
                self.owners[task] = true;
            } else {
                self.waiters.push_back(task);
            }
        }
        let expected = if self.owners[task] { Poll::Ready(()) } else { Poll::Pending };
        self.woken[task] = false;
        self.semaphore.poll_acquire(&mut self.acquisitions[task], &self.wakers[task]) == expected
    }

    /// Makes a task release its permit, or adds a permit. Returns true if only the first waiting task is
    /// woken.
    fn release(&mut self, task: Option<usize>) -> bool {
        if let Some(task) = task {
            if !self.owners[task] || self.woken[task] {
                return true;
            }
            self.owners[task] = false;
            self.acquisitions[task] = Acquisition::default();
        }
        let first = self.waiters.pop_front();
        match first {
            Some(first) => (self.owners[first], self.woken[first]) = (true, true),
            None => self.permits += 1,
        }
        match (self.semaphore.release(), first) {
            (Some(waker), Some(first)) => waker.will_wake(&self.wakers[first]),
            (waker, first) => waker.is_none() && first.is_none(),
        }
    }
}

proptest! {
    #[test]
    fn permits_are_handed_over_in_the_order_of_arrival(
        permits in 0..4_usize,
        steps in vec((0..8_u8, 0..TASKS), 0..if cfg!(miri) { 60 } else { 600 }),
    ) {
        let mut model = Model::new(permits);
        for (step, task) in steps {
            let is_expected = match step {
                0..=3 => model.poll(task),
                4..=6 => model.release(Some(task)),
                // A permit is added, once in twelve times that this is drawn.
                _ if task == 0 => model.release(None),
                _ => true,
            };
            prop_assert!(is_expected);
        }
        prop_assert!(model.permits == 0 || model.waiters.is_empty());
        prop_assert_eq!(model.semaphore.permits, model.permits);
        // All waiting tasks get a permit when the others have released their permits.
        for _ in 0..TASKS {
            for task in 0..TASKS {
                prop_assert!(!model.woken[task] || model.poll(task));
                prop_assert!(model.release(Some(task)));
            }
        }
        prop_assert!(permits == 0 || model.waiters.is_empty());
    }
}

#[test]
fn task_that_arrives_before_the_woken_one_runs_does_not_overtake_it() {
    let (mut semaphore, wakers) = (Semaphore::new(1), wakers(3));
    let [mut first, mut second, mut third] = [const { Acquisition { is_queued: false } }; 3];
    assert!(semaphore.poll_acquire(&mut first, &wakers[0]).is_ready());
    assert!(semaphore.poll_acquire(&mut second, &wakers[1]).is_pending());
    assert!(semaphore.release().unwrap().will_wake(&wakers[1]));
    assert!(semaphore.poll_acquire(&mut third, &wakers[2]).is_pending());
    assert!(semaphore.poll_acquire(&mut second, &wakers[1]).is_ready());
    assert!(semaphore.release().unwrap().will_wake(&wakers[2]));
    assert!(semaphore.poll_acquire(&mut third, &wakers[2]).is_ready());
}

#[test]
fn closed_semaphore_lets_all_tasks_pass() {
    let (mut semaphore, wakers) = (Semaphore::new(0), wakers(3));
    let mut waiting = [const { Acquisition { is_queued: false } }; 2];
    for (acquisition, waker) in waiting.iter_mut().zip(&wakers) {
        assert!(semaphore.poll_acquire(acquisition, waker).is_pending());
    }
    let mut queue = semaphore.close();
    assert!(wakers[..2].iter().all(|waker| queue.pop().unwrap().will_wake(waker)) && queue.pop().is_none());
    for (acquisition, waker) in waiting.iter_mut().zip(&wakers) {
        assert!(semaphore.poll_acquire(acquisition, waker).is_ready());
    }
    assert!(semaphore.poll_acquire(&mut Acquisition::default(), &wakers[2]).is_ready());
}
