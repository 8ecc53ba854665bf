//! A CPU yields while another CPU makes a thread ready: no thread is lost or duplicated, and the count of
//! ready threads stays right.

use core::sync::atomic::Ordering::Relaxed;

use loom::thread;

use super::explore;
use super::system::{ModelScheduler, no_time};

#[test]
fn yield_agrees_with_a_remote_wake_up() {
    explore(3, || {
        let system = ModelScheduler::new(2);
        let [first, second, third] = [0, 1, 2].map(|number| ModelScheduler::thread(number, 0, true));
        system.make_ready(first);
        let cpu = system.cpu(0);
        let mut current = cpu.pick_next(no_time).unwrap();
        current.enter();
        system.make_ready(second);
        let waker = thread::spawn(move || system.make_ready(third));
        let mut yield_now = || {
            if let Some(next) = cpu.yield_now(cpu.current(), no_time) {
                ModelScheduler::switch(current, next);
                current = next;
            }
        };
        yield_now();
        yield_now();
        waker.join().unwrap();
        assert_eq!(cpu.ready_count(), 2);
        // Now the third thread is visible, and the CPU switches to every thread.
        yield_now();
        yield_now();
        let switches = [first, second, third].map(|thread| thread.switches.load(Relaxed));
        assert!(switches.iter().all(|&count| count > 0) && switches.iter().sum::<u32>() == 5, "{switches:?}");
    });
}
