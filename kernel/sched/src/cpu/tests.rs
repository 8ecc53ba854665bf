//! Queues, placement and stealing, with fake threads.

extern crate std;

use super::{Cpu, Cpus, Told};
use crate::policy::RoundRobin;
use crate::testing::{Simple, threads};
use core::sync::atomic::Ordering;
use std::boxed::Box;
use std::sync::Mutex;
use std::vec::Vec;

type Policy = RoundRobin<Simple>;
type System = Cpus<Simple, Policy, Mutex<Policy>>;
type OneCpu = &'static Cpu<Simple, Policy, Mutex<Policy>>;

fn no_time() -> u64 {
    0
}

/// So many CPUs, each with an idle thread of its own, and threads that run nowhere yet.
fn system(cpus: u32) -> (System, Vec<OneCpu>, Vec<&'static Simple>) {
    let system = System::new();
    let cpus: Vec<_> = (0..cpus)
        .map(|number| {
            let idle = threads(1)[0];
            &*Box::leak(Box::new(Cpu::new(number, idle, Mutex::default())))
        })
        .collect();
    cpus.iter().for_each(|cpu| system.add(cpu));
    (system, cpus, threads(6))
}

fn number(thread: Option<&'static Simple>) -> Option<usize> {
    thread.map(|thread| thread.number)
}

#[test]
fn yielding_alone_changes_nothing() {
    let (system, cpus, all) = system(1);
    system.make_ready(all[0]);
    assert_eq!(number(cpus[0].next(no_time)), Some(0));
    assert_eq!(number(cpus[0].yield_now(cpus[0].current(), no_time)), None);
    system.make_ready(all[1]);
    assert_eq!(number(cpus[0].yield_now(cpus[0].current(), no_time)), Some(1));
    assert_eq!(number(cpus[0].yield_now(cpus[0].current(), no_time)), Some(0));
    assert_eq!(cpus[0].ready_count(), 1);
}

#[test]
fn an_idle_cpu_is_told_once() {
    let (system, cpus, all) = system(2);
    all[0].entity.place(0, false);
    assert!(system.next_or_idle(cpus[1], no_time).is_none());
    assert_eq!(system.make_ready(all[0]), Told::Cpu(1));
    all[1].entity.place(0, false);
    // CPU 1 is on its way to the first thread; the second starts a slice where it is.
    assert_eq!(system.make_ready(all[1]), Told::Cpu(0));
    cpus[0].set_slice(true);
    assert_eq!(system.make_ready(all[2]), Told::Nobody);
    assert_eq!(number(system.next_or_idle(cpus[1], no_time)), Some(0));
    assert_eq!(all[0].entity.cpu(), 1);
}

#[test]
fn idle_cpus_steal_but_not_what_is_pinned_or_running() {
    let (system, cpus, all) = system(2);
    all[0].entity.place(0, true);
    system.make_ready(all[0]);
    assert!(system.next_or_idle(cpus[1], no_time).is_none());
    assert!(system.is_idle(1));
    system.leave_idle(1);
    all[1].entity.place(0, false);
    system.make_ready(all[1]);
    assert_eq!(number(system.next_or_idle(cpus[1], no_time)), Some(1));
    assert_eq!(cpus[0].ready_count(), 1);
    // A thread that still uses its stack stays where it is.
    all[2].running.store(true, Ordering::Release);
    all[2].entity.place(0, false);
    assert!(system.next_or_idle(cpus[1], no_time).is_none());
    system.make_ready(all[2]);
    assert_eq!(cpus[0].ready_count(), 2);
}

#[test]
fn a_better_thread_interrupts() {
    let (system, cpus, all) = system(1);
    system.make_ready(all[0]);
    cpus[0].next(no_time);
    cpus[0].set_slice(true);
    assert_eq!(system.make_ready(all[1]), Told::Nobody);
    assert_eq!(number(cpus[0].preempt(false, no_time)), None);
    all[2].entity.set_priority(5);
    assert_eq!(system.make_ready(all[2]), Told::Cpu(0));
    assert_eq!(number(cpus[0].preempt(false, no_time)), Some(2));
    assert_eq!(number(cpus[0].preempt(true, no_time)), None);
    assert_eq!(cpus[0].ready_count(), 2);
}

#[test]
fn a_wake_up_is_not_lost_and_not_doubled() {
    let (system, cpus, all) = system(1);
    assert_eq!(system.wake(all[0]), Told::Nobody);
    assert!(!all[0].entity.park());
    assert!(all[0].entity.park());
    system.wake(all[0]);
    system.wake(all[0]);
    assert_eq!(cpus[0].ready_count(), 1);
}
