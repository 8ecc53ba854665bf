//! Making threads ready while CPUs become idle: none is left in a queue while a CPU sleeps that could run it.

use loom::thread;

use super::system::System;
use super::{Actor, explore};

/// A thread that has run on this CPU, waits, and whose stack the CPU still uses.
fn leaving(number: usize, cpu: u32, pinned: bool) -> &'static Actor {
    let actor = System::actor(number, cpu, pinned);
    actor.enter();
    assert!(actor.entity.park());
    actor
}

/// The thread last ran on CPU 0, which stays busy; so CPU 1 has to run it.
#[test]
fn a_cpu_that_becomes_idle_finds_a_thread_elsewhere() {
    explore(3, || {
        let system = System::new(2);
        let actor = System::actor(0, 0, false);
        let idle = thread::spawn(move || system.find(1, system.cpu(1).current()).number);
        system.make_ready(actor);
        assert_eq!(idle.join().unwrap(), 0);
    });
}

#[test]
fn two_cpus_find_a_thread_each() {
    explore(2, || {
        let system = System::new(3);
        let find = |number| thread::spawn(move || system.find(number, system.cpu(number).current()).number);
        let found = [1, 2].map(find);
        for number in 0..2 {
            system.make_ready(System::actor(number, 0, false));
        }
        let found = found.map(|found| found.join().unwrap());
        assert_ne!(found[0], found[1]);
    });
}

/// The thread can only go on where it is, and its CPU becomes idle.
#[test]
fn a_pinned_thread_is_woken_while_its_cpu_becomes_idle() {
    explore(3, || wake_while_leaving(true));
}

#[test]
fn a_thread_is_woken_while_its_cpu_becomes_idle() {
    explore(3, || wake_while_leaving(false));
}

fn wake_while_leaving(pinned: bool) {
    let system = System::new(2);
    let actor = leaving(7, 1, pinned);
    let home = thread::spawn(move || system.find(1, actor).number);
    system.wake(actor);
    assert_eq!(home.join().unwrap(), 7);
}

/// Its CPU is told because the thread is better than what runs there, and not because it is idle.
#[test]
fn a_better_thread_comes_while_its_cpu_becomes_idle() {
    explore(3, || {
        let system = System::new(2);
        let actor = System::actor(7, 1, true);
        actor.entity.set_priority(1);
        let home = thread::spawn(move || system.find(1, system.cpu(1).current()).number);
        system.make_ready(actor);
        assert_eq!(home.join().unwrap(), 7);
    });
}

/// CPU 0 goes on with another thread while the one that it leaves is woken; so CPU 1 has to run that.
#[test]
fn a_thread_is_woken_while_its_cpu_goes_on_with_another() {
    explore(2, || {
        let system = System::new(3);
        let actor = leaving(7, 0, false);
        system.make_ready(System::actor(8, 0, true));
        let busy = thread::spawn(move || system.find(0, actor).number);
        let idle = thread::spawn(move || system.find(1, system.cpu(1).current()).number);
        system.wake(actor);
        assert_eq!(busy.join().unwrap(), 8);
        assert_eq!(idle.join().unwrap(), 7);
    });
}

/// Each CPU may see the other's thread while the other is still about to leave it.
#[test]
fn cpus_do_not_wait_for_each_other() {
    explore(2, || {
        let system = System::new(3);
        let actors = [0, 1].map(|number| leaving(number, if number == 0 { 0 } else { 1 }, false));
        let found = [0, 1].map(|number| thread::spawn(move || system.find(number, actors[number]).number));
        for actor in actors {
            system.wake(actor);
        }
        let found = found.map(|found| found.join().unwrap());
        assert_ne!(found[0], found[1]);
    });
}
