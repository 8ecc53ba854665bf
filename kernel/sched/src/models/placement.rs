//! Placement while CPUs become idle: no thread stays in a run queue while a CPU that could run it is idle.

use loom::sync::Mutex;
use loom::thread::spawn;

use super::system::{ModelScheduler, no_time};
use super::{ModelThread, explore, leak};
use crate::cpu::Cpu;
use crate::cpus::{Cpus, Reschedule};
use crate::policy::Fair;

/// A thread that has parked on this CPU, which still uses its stack.
fn parked(number: usize, cpu: u32, pinned: bool) -> &'static ModelThread {
    let thread = ModelScheduler::thread(number, cpu, pinned);
    thread.enter();
    assert!(thread.entity.park());
    thread
}

/// The thread last ran on CPU 0, which stays busy; so CPU 1 must run it.
#[test]
fn cpu_that_becomes_idle_steals() {
    explore(3, || {
        let system = ModelScheduler::new(2);
        let thread = ModelScheduler::thread(0, 0, false);
        let idle = spawn(move || system.schedule(1, system.cpu(1).current()).number);
        system.make_ready(thread);
        assert_eq!(idle.join().unwrap(), 0);
    });
}

/// CPU 0 stays busy. It once had a thread for others, and gets one again while CPU 1 finds none.
#[test]
fn cpu_that_becomes_idle_steals_again() {
    explore(3, || {
        let system = ModelScheduler::new(2);
        let threads = [0, 1].map(|number| ModelScheduler::thread(number, 0, false));
        system.make_ready(threads[0]);
        assert!(system.cpu(0).pick_next(no_time).is_some());
        let idle = spawn(move || system.schedule(1, system.cpu(1).current()).number);
        system.make_ready(threads[1]);
        assert_eq!(idle.join().unwrap(), 1);
    });
}

/// CPU 0 has two threads when it leaves idle, and runs one of them; so CPU 1 must run the other.
#[test]
fn cpu_that_becomes_idle_steals_from_one_that_leaves_idle() {
    explore(3, || {
        let system = ModelScheduler::new(2);
        let idle = system.cpu(0).switch_to_idle(ModelThread::new(usize::MAX));
        for number in 0..2 {
            system.make_ready(ModelScheduler::thread(number, 0, false));
        }
        let previous = [idle, system.cpu(1).current()];
        let found = [0, 1].map(|number| spawn(move || system.schedule(number, previous[number]).number));
        let found = found.map(|found| found.join().unwrap());
        assert_ne!(found[0], found[1]);
    });
}

#[test]
fn two_idle_cpus_steal_a_thread_each() {
    explore(2, || {
        let system = ModelScheduler::new(3);
        let find = |number| spawn(move || system.schedule(number, system.cpu(number).current()).number);
        let found = [1, 2].map(find);
        for number in 0..2 {
            system.make_ready(ModelScheduler::thread(number, 0, false));
        }
        let found = found.map(|found| found.join().unwrap());
        assert_ne!(found[0], found[1]);
    });
}

/// The thread cannot migrate, and its CPU becomes idle.
#[test]
fn pinned_thread_is_woken_while_its_cpu_becomes_idle() {
    explore(3, || wake_while_idling(true));
}

#[test]
fn thread_is_woken_while_its_cpu_becomes_idle() {
    explore(3, || wake_while_idling(false));
}

fn wake_while_idling(pinned: bool) {
    let system = ModelScheduler::new(2);
    let thread = parked(7, 1, pinned);
    let home = spawn(move || system.schedule(1, thread).number);
    system.wake(thread);
    assert_eq!(home.join().unwrap(), 7);
}

/// The CPU is rescheduled because the thread preempts its current one, not because the CPU is idle.
#[test]
fn thread_of_higher_priority_is_woken_while_its_cpu_becomes_idle() {
    explore(3, || {
        let system = ModelScheduler::new(2);
        let thread = ModelScheduler::thread(7, 1, true);
        thread.entity.set_priority(1);
        let home = spawn(move || system.schedule(1, system.cpu(1).current()).number);
        system.make_ready(thread);
        assert_eq!(home.join().unwrap(), 7);
    });
}

/// CPU 0 switches away from a thread while this thread is woken. So CPU 1 must run it.
#[test]
fn thread_is_woken_while_its_cpu_switches_to_another() {
    explore(2, || {
        let system = ModelScheduler::new(3);
        let thread = parked(7, 0, false);
        system.make_ready(ModelScheduler::thread(8, 0, true));
        let busy = spawn(move || system.schedule(0, thread).number);
        let idle = spawn(move || system.schedule(1, system.cpu(1).current()).number);
        system.wake(thread);
        assert_eq!(busy.join().unwrap(), 8);
        assert_eq!(idle.join().unwrap(), 7);
    });
}

/// Each CPU may see the other's thread before the other has switched away from it.
#[test]
fn cpus_do_not_wait_for_each_other() {
    explore(2, || {
        let system = ModelScheduler::new(3);
        let threads = [0, 1].map(|number| parked(number, if number == 0 { 0 } else { 1 }, false));
        let found = [0, 1].map(|number| spawn(move || system.schedule(number, threads[number]).number));
        for thread in threads {
            system.wake(thread);
        }
        let found = found.map(|found| found.join().unwrap());
        assert_ne!(found[0], found[1]);
    });
}

/// CPU 0 stays busy, and has a pinned thread and another one. It gives the other thread to CPU 1, which
/// becomes idle and must run it.
#[test]
fn thread_is_given_to_a_cpu_that_becomes_idle() {
    explore(3, || {
        let system = ModelScheduler::new(2);
        for (number, pinned) in [(6, true), (7, false)] {
            system.make_ready(ModelScheduler::thread(number, 0, pinned));
        }
        let idle = spawn(move || system.schedule(1, system.cpu(1).current()).number);
        system.reschedule(system.cpus.balance(system.cpu(0), no_time));
        assert_eq!(idle.join().unwrap(), 7);
    });
}

/// The current thread of CPU 0 wakes a thread that has woken it before, and parks, while CPU 1 becomes idle.
/// One of the CPUs must run the woken thread.
#[test]
fn thread_is_woken_beside_its_waker_while_another_cpu_becomes_idle() {
    explore(3, || {
        let system: &Cpus<ModelThread, Fair<ModelThread>, Mutex<Fair<ModelThread>>> = leak(Cpus::default());
        let cpus =
            [0, 1].map(|number| leak(Cpu::new(number, ModelThread::new(usize::MAX), Mutex::default())));
        cpus.iter().for_each(|cpu| system.add_cpu(cpu));
        let thread = ModelScheduler::thread(7, 1, false);
        assert!(thread.entity.park());
        cpus[0].current().entity.woken_by.store(Some(thread));
        let idle = spawn(move || system.pick_next_or_idle(cpus[1], no_time).is_some());
        let rescheduled = system.wake_from(|| cpus[0], thread, no_time);
        let runs_here = cpus[0].pick_next(no_time).is_some();
        let runs_there = idle.join().unwrap();
        assert_ne!(rescheduled, Reschedule::Cpu(1), "the thread is placed beside its waker");
        assert_ne!(runs_here, runs_there);
    });
}
