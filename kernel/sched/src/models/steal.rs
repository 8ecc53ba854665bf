//! Work stealing: exactly one CPU runs each thread, and never while another CPU still uses the thread's
//! stack.

use core::sync::atomic::Ordering::Relaxed;

use loom::thread::spawn;

use super::explore;
use super::system::{ModelScheduler, no_time};

/// Both CPUs take threads from the run queue of CPU 0 until it is empty.
#[test]
fn each_thread_is_picked_once() {
    explore(3, || {
        let system = ModelScheduler::new(2);
        let threads = [0, 1].map(|number| ModelScheduler::thread(number, 0, false));
        for thread in threads {
            system.make_ready(thread);
        }
        let run_all = move |number: usize| {
            while let Some(next) = system.cpus.pick_next_or_idle(system.cpu(number), no_time) {
                next.enter();
                next.leave();
            }
        };
        let thief = spawn(move || run_all(1));
        run_all(0);
        thief.join().unwrap();
        assert!(threads.iter().all(|thread| thread.switches.load(Relaxed) == 1));
        assert_eq!(system.cpu(0).ready_count(), 0);
    });
}

/// CPU 0 requeues its thread and switches to another, while CPU 1 steals.
#[test]
fn running_thread_is_not_stolen() {
    explore(3, || {
        let system = ModelScheduler::new(2);
        let threads = [0, 1].map(|number| ModelScheduler::thread(number, 0, false));
        system.make_ready(threads[0]);
        let current = system.cpu(0).pick_next(no_time).unwrap();
        current.enter();
        system.make_ready(threads[1]);
        let thief = spawn(move || {
            if let Some(next) = system.cpus.pick_next_or_idle(system.cpu(1), no_time) {
                next.enter();
            }
        });
        if let Some(next) = system.cpu(0).yield_now(system.cpu(0).current(), no_time) {
            ModelScheduler::switch(current, next);
        }
        thief.join().unwrap();
        // The thief has one of the two threads, and CPU 0 has the other.
        assert!(threads.iter().all(|thread| thread.running.load(Relaxed)));
        assert_eq!(system.cpu(0).ready_count(), 0);
    });
}
