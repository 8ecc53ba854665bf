//! Placement where the policy may account for run time.

extern crate std;

use super::{FairCpu, FairCpus, fair_system, no_time, number};
use crate::cpus::Reschedule;
use crate::slices::ROTATION;
use crate::testing::TestThread;
use crate::thread::NORMAL_PRIORITY;
use core::sync::atomic::Ordering;
use std::vec::Vec;

/// [`fair_system`] with two CPUs, which run the first two threads.
fn busy_system(count: usize) -> (FairCpus, [FairCpu; 2], Vec<&'static TestThread>) {
    let (system, cpus, all) = fair_system(count);
    assert_eq!(system.wake(all[1], no_time), Reschedule::Cpu(1));
    assert_eq!(number(system.pick_next_or_idle(cpus[1], no_time)), Some(1));
    (system, cpus, all)
}

#[test]
fn thread_that_is_woken_comes_to_its_waker_if_no_cpu_is_idle() {
    let (system, cpus, all) = busy_system(5);
    for (number, pinned) in [(2, false), (3, true)] {
        all[number].entity.assign_cpu(1, pinned);
        system.wake_from(|| cpus[0], all[number], no_time);
        assert_eq!(all[number].entity.cpu(), u32::from(pinned));
    }
    // A timer is not a waker, so the thread stays on its own CPU.
    all[4].entity.assign_cpu(1, false);
    system.wake(all[4], no_time);
    assert_eq!(all[4].entity.cpu(), 1);
}

/// [`busy_system`] with threads of normal priority. Its CPUs account for run time since these times.
fn accounting_system(count: usize, since: [u64; 2]) -> (FairCpus, [FairCpu; 2], Vec<&'static TestThread>) {
    let (system, cpus, all) = busy_system(count);
    all.iter().for_each(|thread| thread.entity.set_priority(NORMAL_PRIORITY));
    for (cpu, now) in cpus.into_iter().zip(since) {
        cpu.stamp(now - MS);
        cpu.observe_current(|| now);
    }
    (system, cpus, all)
}

const MS: u64 = 1_000_000;

#[test]
fn thread_that_comes_from_a_cpu_without_run_times_has_full_credit() {
    let (system, cpus, all) = busy_system(3);
    all[2].entity.set_priority(NORMAL_PRIORITY);
    all[2].entity.assign_cpu(1, false);
    all[2].entity.runtime.store(5 * MS, Ordering::Relaxed);
    system.wake_from(|| cpus[0], all[2], no_time);
    assert_eq!(all[2].entity.runtime.load(Ordering::Relaxed), 0);
}

/// A ready thread holds back the virtual time of CPU 1. The virtual time of CPU 0 advances with a thread that
/// computes alone and is not charged.
#[test]
fn thread_that_comes_from_another_cpu_keeps_its_distance_to_the_virtual_time() {
    for distance in [MS.cast_signed(), -MS.cast_signed()] {
        let (system, cpus, all) = accounting_system(4, [10 * MS, 30 * MS]);
        all[3].entity.assign_cpu(1, true);
        system.wake(all[3], || 31 * MS);
        let [here, there] = cpus.map(|cpu| cpu.virtual_time(50 * MS).unwrap());
        assert!(there < 33 * MS && here >= 50 * MS, "{here}, {there}");
        all[2].entity.assign_cpu(1, false);
        all[2].entity.runtime.store(there.saturating_add_signed(distance), Ordering::Relaxed);
        system.wake_from(|| cpus[0], all[2], || 50 * MS);
        assert_eq!(cpus[0].virtual_time(50 * MS), Some(here), "the guess was right");
        let runtime = all[2].entity.runtime.load(Ordering::Relaxed);
        assert_eq!((all[2].entity.cpu(), runtime), (0, here.saturating_add_signed(distance)));
    }
}

#[test]
fn new_thread_has_no_more_credit_than_its_creator_has_left() {
    let (system, cpus, all) = accounting_system(3, [10 * MS; 2]);
    system.start(cpus[0], all[2], None, || 13 * MS);
    let [creator, new] = [0, 2].map(|number| all[number].entity.runtime.load(Ordering::Relaxed));
    assert_eq!(new, creator);
    assert!(creator >= 13 * MS, "charged for the time before");
}

/// CPU 0 runs a thread of higher priority, which wakes one that last ran on CPU 1.
#[test]
fn woken_thread_does_not_wait_behind_a_waker_of_higher_priority() {
    let (system, cpus, all) = accounting_system(3, [10 * MS; 2]);
    all[2].entity.assign_cpu(1, false);
    all[0].entity.set_priority(NORMAL_PRIORITY + 1);
    system.wake_from(|| cpus[0], all[2], || 20 * MS);
    assert_eq!(all[2].entity.cpu(), 1);
}

#[test]
fn threads_that_one_wakes_are_distributed_to_their_own_cpus() {
    let (system, cpus, all) = busy_system(8);
    for (number, home) in [(2, 1), (3, 1), (4, 1), (5, 0), (6, 1), (7, 1)] {
        all[number].entity.assign_cpu(home, false);
        system.wake_from(|| cpus[0], all[number], no_time);
    }
    assert_eq!(cpus.map(|cpu| cpu.ready_count()), [4, 2]);
}

#[test]
fn surplus_of_one_thread_moves_now_and_then() {
    let (system, cpus, all) = busy_system(3);
    system.wake_from(|| cpus[0], all[2], no_time);
    let moves =
        (0..ROTATION).map(|_| system.balance(cpus[0], no_time)).filter(|&moved| moved != Reschedule::None);
    assert_eq!(moves.collect::<Vec<_>>(), [Reschedule::Cpu(1)]);
    assert_eq!([cpus[0].ready_count(), cpus[1].ready_count()], [0, 1]);
}
