//! Run queues, placement and stealing, with test threads.

extern crate std;

mod run_times;

use super::{Cpu, Cpus, Reschedule};
use crate::policy::{Fair, RoundRobin};
use crate::testing::{TestThread, threads};
use crate::trial::{APART, TRIAL_NS};
use core::sync::atomic::{AtomicUsize, Ordering};
use hermit_base::lock::Lock;
use parking_lot::Mutex;
use std::boxed::Box;
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
    // A thread that is not pinned is found already while it still uses its stack. Afterwards it is stolen.
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

/// An idle CPU takes no lock of a CPU that never had a thread for it, and takes the lock once of a CPU that
/// had one earlier.
#[test]
fn idle_cpu_searches_only_loaded_cpus() {
    let (system, cpus) = counting_system::<4>();
    let all = threads(3);
    let locked = || [1, 2, 3].map(|number: usize| cpus[number].run_queue.1.load(Ordering::Relaxed));
    for thread in &all {
        cpus[2].pick_next(no_time);
        thread.entity.assign_cpu(2, false);
        system.make_ready(thread, no_time);
    }
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

/// The ends of short slices would take most of the time.
#[test]
fn slices_are_longer_on_a_slow_cpu() {
    const MS: u64 = 1_000_000;
    let fair = Cpu::new(0, threads(1)[0], Mutex::<Fair<TestThread>>::default());
    let slice_after = |cost_ns: u64, times: u32| {
        (0..times).for_each(|_| fair.record_slice_cost(cost_ns));
        fair.slice_ns(false).map(|slice| slice / MS)
    };
    assert_eq!(slice_after(u64::MAX, 1), Some(3));
    assert_eq!(slice_after(MS / 4, 100), Some(8));
    assert_eq!(slice_after(u64::MAX, 100), Some(12));
    assert_eq!(slice_after(MS / 50, 1), Some(3));
    // A policy with long slices keeps them.
    let (_, cpus, _) = system(1);
    (0..100).for_each(|_| cpus[0].record_slice_cost(100 * MS));
    assert_eq!(cpus[0].slice_ns(false), Some(10 * MS));
}

type FairCpus = Cpus<TestThread, Fair<TestThread>, Mutex<Fair<TestThread>>>;
type FairCpu = &'static Cpu<TestThread, Fair<TestThread>, Mutex<Fair<TestThread>>>;

/// Two CPUs, the second one idle, and threads. The first thread is the current one of CPU 0; the others are
/// parked.
fn fair_system(count: usize) -> (FairCpus, [FairCpu; 2], Vec<&'static TestThread>) {
    let (system, all) = (FairCpus::new(), threads(count));
    let idle = threads(1)[0];
    let new = |number, current| &*Box::leak(Box::new(Cpu::new(number, current, Mutex::default())));
    let cpus = [new(0, all[0]), new(1, idle)];
    cpus.iter().for_each(|cpu| system.add_cpu(cpu));
    cpus[1].switch_to_idle(idle);
    assert!(system.pick_next_or_idle(cpus[1], no_time).is_none());
    assert!(all[1..].iter().all(|thread| thread.entity.park()));
    (system, cpus, all)
}

/// Makes the current thread of CPU 0 wake `thread`, after `thread` was the last one that woke it.
fn answer(system: &FairCpus, cpus: [FairCpu; 2], thread: &'static TestThread) -> Reschedule {
    cpus[0].current().entity.woken_by.store(Some(thread));
    system.wake_from(|| cpus[0], thread, no_time)
}

#[test]
fn thread_that_the_thread_it_woke_last_wakes_is_placed_beside_it() {
    let (system, cpus, all) = fair_system(3);
    // The first wake-up of a thread goes to the idle CPU.
    assert_eq!(system.wake_from(|| cpus[0], all[2], no_time), Reschedule::Cpu(1));
    assert_eq!(number(system.pick_next_or_idle(cpus[1], no_time)), Some(2));
    // This thread parks, and CPU 1 is idle again.
    assert!(all[2].entity.park() && system.pick_next_or_idle(cpus[1], no_time).is_none());
    all[1].entity.assign_cpu(1, false);
    assert_eq!(answer(&system, cpus, all[1]), Reschedule::Cpu(0));
    assert!(system.is_idle(1) && cpus[0].has_only_beside());
    assert_eq!((all[1].entity.cpu(), cpus[0].start_slice()), (0, Some(TRIAL_NS)));
    assert_eq!(system.reschedule_stealer(cpus[0]), Reschedule::None);
    assert_eq!(number(cpus[0].pick_next(no_time)), Some(1));
    assert!(!cpus[0].has_only_beside());
}

#[test]
fn thread_is_placed_on_an_idle_cpu_if_another_is_ready_or_has_another_priority_or_is_pinned() {
    for case in 0..4 {
        let (system, cpus, all) = fair_system(3);
        all[1].entity.assign_cpu(1, case == 0);
        match case {
            1 => all[1].entity.set_priority(5),
            2 => {
                all[2].entity.assign_cpu(0, true);
                system.wake(all[2], no_time);
            }
            _ => {}
        }
        let expected = if case == 3 { Reschedule::Cpu(0) } else { Reschedule::Cpu(1) };
        assert_eq!(answer(&system, cpus, all[1]), expected, "{case}");
    }
}

/// The waker continues to compute. So the woken thread is left to the idle CPU, and the next time it is
/// placed there at once.
#[test]
fn trial_in_which_a_thread_waits_ends_the_placement_beside_the_waker() {
    let (system, cpus, all) = fair_system(2);
    answer(&system, cpus, all[1]);
    cpus[0].start_slice();
    assert!(cpus[0].end_trial());
    assert!(!cpus[0].end_trial(), "it has ended");
    assert_eq!(system.reschedule_stealer(cpus[0]), Reschedule::Cpu(1));
    assert_eq!(number(system.pick_next_or_idle(cpus[1], no_time)), Some(1));
    for wake in 0..APART + 1 {
        assert!(all[1].entity.park() && system.pick_next_or_idle(cpus[1], no_time).is_none());
        let is_last = wake == APART;
        let expected = if is_last { Reschedule::Cpu(0) } else { Reschedule::Cpu(1) };
        assert_eq!(answer(&system, cpus, all[1]), expected, "{wake}");
        if !is_last {
            assert!(system.pick_next_or_idle(cpus[1], no_time).is_some());
        }
    }
}

/// A thread of the kernel that is woken often has no part in a trial.
#[test]
fn thread_waits_in_a_trial_with_switches_to_others() {
    let (system, cpus, all) = fair_system(3);
    answer(&system, cpus, all[1]);
    cpus[0].start_slice();
    all[2].entity.assign_cpu(0, true);
    all[2].entity.set_priority(5);
    for _ in 0..20 {
        system.wake(all[2], no_time);
        assert_eq!(number(cpus[0].preempt(false, no_time)), Some(2));
        assert!(all[2].entity.park());
        assert!(cpus[0].pick_next(no_time).is_some());
    }
    assert!(cpus[0].end_trial() && !cpus[0].has_only_beside());
}

/// A thread is not placed beside its waker during a slice that was started for other threads, since such a
/// slice may end late.
#[test]
fn thread_is_not_placed_beside_its_waker_in_the_slice_of_others() {
    let (system, cpus, all) = fair_system(2);
    cpus[0].start_slice();
    assert_eq!(answer(&system, cpus, all[1]), Reschedule::Cpu(1));
}

/// Threads that wake each other often wait for each other only briefly.
#[test]
fn trial_with_many_switches_leaves_the_threads_together() {
    let (system, cpus, all) = fair_system(2);
    answer(&system, cpus, all[1]);
    cpus[0].start_slice();
    for _ in 0..20 {
        let (before, next) = (cpus[0].current(), cpus[0].pick_next(no_time).unwrap());
        assert!(before.entity.park());
        assert_eq!((next.entity.cpu(), answer(&system, cpus, before)), (0, Reschedule::None));
    }
    assert!(cpus[0].end_trial() && cpus[0].has_only_beside());
    assert_eq!(system.reschedule_stealer(cpus[0]), Reschedule::None);
}

#[test]
fn ready_threads_move_to_a_cpu_with_fewer_by_two() {
    let (system, cpus, all) = system(2);
    for thread in &all[..4] {
        thread.entity.assign_cpu(0, true);
        system.make_ready(thread, no_time);
    }
    assert_eq!(system.balance(cpus[0], no_time), Reschedule::None, "all are pinned");
    for (index, expected) in [(4, 1), (5, 1)] {
        all[index].entity.assign_cpu(0, false);
        system.make_ready(all[index], no_time);
        assert_eq!(all[index].entity.cpu(), expected);
    }
    // Two threads of CPU 1 and four threads of CPU 0 are ready. CPU 1 runs one of its own.
    assert!(cpus[1].pick_next(no_time).is_some());
    all[0].entity.assign_cpu(0, false);
    assert_eq!(system.balance(cpus[0], no_time), Reschedule::Cpu(1));
    assert_eq!([cpus[0].ready_count(), cpus[1].ready_count(), all[0].entity.cpu()], [3, 2, 1]);
    assert_eq!(system.balance(cpus[0], no_time), Reschedule::None);
}
