//! Yielding while another CPU makes a thread ready: none gets lost or doubled, and the count stays right.

use core::sync::atomic::Ordering::Relaxed;

use loom::thread;

use super::explore;
use super::system::{System, no_time};

#[test]
fn yielding_agrees_with_a_remote_wake_up() {
    explore(3, || {
        let system = System::new(2);
        let [first, second, third] = [0, 1, 2].map(|number| System::actor(number, 0, true));
        system.make_ready(first);
        let cpu = system.cpu(0);
        let mut current = cpu.next(no_time).unwrap();
        current.enter();
        system.make_ready(second);
        let waker = thread::spawn(move || system.make_ready(third));
        let mut yield_now = || {
            if let Some(next) = cpu.yield_now(cpu.current(), no_time) {
                System::switch(current, next);
                current = next;
            }
        };
        yield_now();
        yield_now();
        waker.join().unwrap();
        assert_eq!(cpu.ready_count(), 2);
        // Now it is seen for sure, and everybody has a turn.
        yield_now();
        yield_now();
        let turns = [first, second, third].map(|actor| actor.turns.load(Relaxed));
        assert!(turns.iter().all(|&turns| turns > 0) && turns.iter().sum::<u32>() == 5, "{turns:?}");
    });
}
