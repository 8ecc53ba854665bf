//! Stealing: each thread is run by one CPU, and never while another still uses its stack.

use core::sync::atomic::Ordering::Relaxed;

use loom::thread;

use super::explore;
use super::system::{System, no_time};

/// Both CPUs take threads from the queue of CPU 0 until there are none.
#[test]
fn each_thread_is_taken_once() {
    explore(3, || {
        let system = System::new(2);
        let actors = [0, 1].map(|number| System::actor(number, 0, false));
        for actor in actors {
            system.make_ready(actor);
        }
        let run_all = move |number: usize| {
            while let Some(next) = system.cpus.next_or_idle(system.cpu(number), no_time) {
                next.enter();
                next.leave();
            }
        };
        let thief = thread::spawn(move || run_all(1));
        run_all(0);
        thief.join().unwrap();
        assert!(actors.iter().all(|actor| actor.turns.load(Relaxed) == 1));
        assert_eq!(system.cpu(0).ready_count(), 0);
    });
}

/// CPU 0 puts its thread back into its queue and goes on with another, and CPU 1 steals.
#[test]
fn a_running_thread_is_not_stolen() {
    explore(3, || {
        let system = System::new(2);
        let actors = [0, 1].map(|number| System::actor(number, 0, false));
        system.make_ready(actors[0]);
        let current = system.cpu(0).next(no_time).unwrap();
        current.enter();
        system.make_ready(actors[1]);
        let thief = thread::spawn(move || {
            if let Some(next) = system.cpus.next_or_idle(system.cpu(1), no_time) {
                next.enter();
            }
        });
        if let Some(next) = system.cpu(0).yield_now(system.cpu(0).current(), no_time) {
            System::switch(current, next);
        }
        thief.join().unwrap();
        // The thief has either of them, and CPU 0 the other.
        assert!(actors.iter().all(|actor| actor.running.load(Relaxed)));
        assert_eq!(system.cpu(0).ready_count(), 0);
    });
}
