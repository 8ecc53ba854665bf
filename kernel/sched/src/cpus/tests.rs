//! Run queues, placement and stealing, with test threads.

extern crate std;

use super::{Cpu, Cpus, Reschedule};
use crate::policy::RoundRobin;
use crate::sync::Lock;
use crate::testing::{TestThread, threads};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::boxed::Box;
use std::sync::Mutex;
use std::vec::Vec;

type Policy = RoundRobin<TestThread>;
type TestCpus = Cpus<TestThread, Policy, Mutex<Policy>>;
type OneCpu = &'static Cpu<TestThread, Policy, Mutex<Policy>>;

fn no_time() -> u64 {
    0
}

/// `cpus` CPUs, each with an idle thread of its own, and six threads that are not ready yet.
fn system(cpus: u32) -> (TestCpus, Vec<OneCpu>, Vec<&'static TestThread>) {
    let system = TestCpus::new();
    let cpus: Vec<_> = (0..cpus)
        .map(|number| {
            let idle = threads(1)[0];
            &*Box::leak(Box::new(Cpu::new(number, idle, Mutex::default())))
        })
        .collect();
    cpus.iter().for_each(|cpu| system.add_cpu(cpu));
    (system, cpus, threads(6))
}

/// A lock that counts how often it was taken.
#[derive(Default)]
struct CountingLock(Mutex<Policy>, AtomicUsize);

impl Lock<Policy> for CountingLock {
    fn with<R>(&self, action: impl FnOnce(&mut Policy) -> R) -> R {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.with(action)
    }
}

type CountingCpus = Cpus<TestThread, Policy, CountingLock>;

/// `cpus` CPUs whose locks count, each with a pinned thread as its current one.
fn counting_system<const CPUS: usize>()
-> (CountingCpus, [&'static Cpu<TestThread, Policy, CountingLock>; CPUS]) {
    let system = CountingCpus::new();
    let cpus = core::array::from_fn(|index| {
        let (number, current) = (u32::try_from(index).unwrap(), threads(1)[0]);
        current.entity.assign_cpu(number, true);
        &*Box::leak(Box::new(Cpu::new(number, current, CountingLock::default())))
    });
    cpus.iter().for_each(|cpu| system.add_cpu(cpu));
    (system, cpus)
}

/// An idle CPU does not search a queue of pinned threads, but finds another thread in it.
#[test]
fn queue_of_pinned_threads_is_not_searched() {
    let (system, cpus) = counting_system::<2>();
    let all = threads(101);
    let locked = || cpus[0].run_queue.1.load(Ordering::Relaxed);
    for thread in &all[..99] {
        thread.entity.assign_cpu(0, true);
        system.make_ready(thread, no_time);
    }
    assert!(cpus[0].pick_next(no_time).is_some());
    let searches = |expected| {
        let before = locked();
        assert!(system.pick_next_or_idle(cpus[1], no_time).is_none());
        assert_eq!(locked() - before, expected);
    };
    searches(0);
    // The switch between pinned threads changes nothing.
    assert!(cpus[0].yield_now(cpus[0].current(), no_time).is_some());
    searches(0);
    // A thread that is not pinned is found: first while it uses its stack, then it is stolen.
    all[99].entity.assign_cpu(0, false);
    all[99].running.store(true, Ordering::Relaxed);
    system.leave_idle(1);
    system.make_ready(all[99], no_time);
    all[99].running.store(false, Ordering::Relaxed);
    assert!(system.pick_next_or_idle(cpus[1], no_time).is_some_and(|stolen| stolen.number == 99));
    searches(1);
    searches(0);
    // The stolen thread may yield to a pinned one, and is then in the queue of its new CPU.
    all[100].entity.assign_cpu(1, true);
    system.leave_idle(1);
    system.make_ready(all[100], no_time);
    assert_eq!(number(cpus[1].yield_now(all[99], no_time)), Some(100));
    assert_eq!(number(cpus[1].steal(&system.loaded)), Some(99));
}

/// An idle CPU takes no lock of a CPU that has nothing for it, and one of a CPU that had something once.
#[test]
fn idle_cpu_searches_only_loaded_cpus() {
    let (system, cpus) = counting_system::<4>();
    let all = threads(3);
    let locked = || [1, 2, 3].map(|number: usize| cpus[number].run_queue.1.load(Ordering::Relaxed));
    for thread in &all {
        thread.entity.assign_cpu(2, false);
        system.make_ready(thread, no_time);
    }
    assert!(cpus[2].pick_next(no_time).is_some() && cpus[2].pick_next(no_time).is_some());
    let before = locked();
    assert_eq!(number(system.pick_next_or_idle(cpus[0], no_time)), Some(2));
    assert!(system.pick_next_or_idle(cpus[0], no_time).is_none());
    system.leave_idle(0);
    assert!(system.pick_next_or_idle(cpus[0], no_time).is_none());
    assert_eq!(locked(), [before[0], before[1] + 2, before[2]]);
}

/// Threads for an idle CPU are left to it until it runs one of them and others are left.
#[test]
fn threads_of_a_cpu_that_leaves_idle_are_stolen() {
    let (system, cpus, all) = system(2);
    cpus[0].switch_to_idle(cpus[0].current());
    system.make_ready(all[0], no_time);
    system.make_ready(all[1], no_time);
    assert!(system.pick_next_or_idle(cpus[1], no_time).is_none());
    assert_eq!(number(system.pick_next_or_idle(cpus[0], no_time)), Some(0));
    assert_eq!(system.reschedule_stealer(cpus[0]), Reschedule::Cpu(1));
    assert_eq!(number(system.pick_next_or_idle(cpus[1], no_time)), Some(1));
    assert_eq!(system.reschedule_stealer(cpus[0]), Reschedule::None);
}

fn number(thread: Option<&'static TestThread>) -> Option<usize> {
    thread.map(|thread| thread.number)
}

#[test]
fn yield_without_ready_threads_keeps_the_cpu() {
    let (system, cpus, all) = system(1);
    system.make_ready(all[0], no_time);
    assert_eq!(number(cpus[0].pick_next(no_time)), Some(0));
    assert_eq!(number(cpus[0].yield_now(cpus[0].current(), no_time)), None);
    system.make_ready(all[1], no_time);
    assert_eq!(number(cpus[0].yield_now(cpus[0].current(), no_time)), Some(1));
    assert_eq!(number(cpus[0].yield_now(cpus[0].current(), no_time)), Some(0));
    assert_eq!(cpus[0].ready_count(), 1);
}

#[test]
fn idle_cpu_is_rescheduled_once() {
    let (system, cpus, all) = system(2);
    all[0].entity.assign_cpu(0, false);
    assert!(system.pick_next_or_idle(cpus[1], no_time).is_none());
    assert_eq!(system.make_ready(all[0], no_time), Reschedule::Cpu(1));
    all[1].entity.assign_cpu(0, false);
    // CPU 1 is claimed for the first thread; the second one starts a slice on its own CPU.
    assert_eq!(system.make_ready(all[1], no_time), Reschedule::Cpu(0));
    cpus[0].start_slice();
    assert_eq!(system.make_ready(all[2], no_time), Reschedule::None);
    assert_eq!(number(system.pick_next_or_idle(cpus[1], no_time)), Some(0));
    assert_eq!(all[0].entity.cpu(), 1);
}

#[test]
fn idle_cpu_steals_unless_pinned_or_running() {
    let (system, cpus, all) = system(2);
    all[0].entity.assign_cpu(0, true);
    system.make_ready(all[0], no_time);
    assert!(system.pick_next_or_idle(cpus[1], no_time).is_none());
    assert!(system.is_idle(1));
    system.leave_idle(1);
    all[1].entity.assign_cpu(0, false);
    system.make_ready(all[1], no_time);
    assert_eq!(number(system.pick_next_or_idle(cpus[1], no_time)), Some(1));
    assert_eq!(cpus[0].ready_count(), 1);
    // A thread that still uses its stack does not migrate.
    all[2].running.store(true, Ordering::Release);
    all[2].entity.assign_cpu(0, false);
    assert!(system.pick_next_or_idle(cpus[1], no_time).is_none());
    system.make_ready(all[2], no_time);
    assert_eq!(cpus[0].ready_count(), 2);
}

#[test]
fn woken_thread_of_higher_priority_preempts() {
    let (system, cpus, all) = system(1);
    system.make_ready(all[0], no_time);
    cpus[0].pick_next(no_time);
    cpus[0].start_slice();
    assert_eq!(system.make_ready(all[1], no_time), Reschedule::None);
    assert_eq!(number(cpus[0].preempt(false, no_time)), None);
    all[2].entity.set_priority(5);
    assert_eq!(system.make_ready(all[2], no_time), Reschedule::Cpu(0));
    assert_eq!(number(cpus[0].preempt(false, no_time)), Some(2));
    assert_eq!(number(cpus[0].preempt(true, no_time)), None);
    assert_eq!(cpus[0].ready_count(), 2);
}

#[test]
fn wake_is_neither_lost_nor_doubled() {
    let (system, cpus, all) = system(1);
    assert_eq!(system.wake(all[0], no_time), Reschedule::None);
    assert!(!all[0].entity.park());
    assert!(all[0].entity.park());
    system.wake(all[0], no_time);
    system.wake(all[0], no_time);
    assert_eq!(cpus[0].ready_count(), 1);
}
