//! Shares and waits of threads on several CPUs.

extern crate std;

use super::{COMPUTING, MICROSECOND, MILLISECOND, SECOND, Simulation, Step, Then, generator, pair, ratio};
use std::vec;

/// Numbers of CPUs and of computing threads.
const MACHINES: [(u32, usize); 4] = [(2, 2), (2, 3), (2, 4), (4, 8)];

/// The smallest share of run time among these threads, as a part of the share that each thread would have if
/// all shares were equal.
fn least_share<F: FnMut(usize) -> Step>(simulation: &Simulation<F>, threads: core::ops::Range<usize>) -> f64 {
    let shares = simulation.shares();
    shares[threads].iter().copied().fold(f64::MAX, f64::min) * ratio(shares.len() as u64, 1)
}

/// `count` threads that lock the same mutex, hold it for about 20 µs, and unlock it, and `busy` threads that
/// compute.
fn lockers(cpus: u32, count: usize, busy: usize, seed: u64) -> Simulation<impl FnMut(usize) -> Step> {
    let mut holds = vec![false; count];
    let mut random = generator(seed);
    Simulation::with_cpus(cpus, count + busy, move |number| {
        let Some(holds) = holds.get_mut(number) else { return COMPUTING };
        *holds = !*holds;
        if *holds { (10, Then::Lock) } else { (15 * MICROSECOND + random(10 * MICROSECOND), Then::Unlock) }
    })
}

/// A thread is woken when the mutex is free. It gets the mutex if it runs at once, instead of the thread that
/// has unlocked it.
#[test]
fn threads_that_lock_a_mutex_get_equal_shares_beside_computing_threads() {
    const LOCKERS: usize = 4;
    for ((cpus, busy), seed) in MACHINES.into_iter().zip(0..) {
        let mut simulation = lockers(cpus, LOCKERS, busy, seed);
        simulation.run(SECOND);
        let turns = simulation.progress[..LOCKERS].iter().map(|progress| progress.steps);
        let (least, total) = (turns.clone().min().unwrap(), turns.sum::<u64>());
        let share = ratio(least * LOCKERS as u64, total);
        assert!(share > 0.7, "{share} of a fair share, {cpus} CPUs beside {busy}");
        let computing = least_share(&simulation, LOCKERS..LOCKERS + busy);
        assert!(computing > 0.9, "{computing} of an equal share, {cpus} CPUs beside {busy}");
    }
}

/// A thread that starts another thread and waits until that thread has ended, and `busy` threads that
/// compute.
fn spawns(cpus: u32, busy: usize, seed: u64) -> Simulation<impl FnMut(usize) -> Step> {
    let mut has_spawned = false;
    let mut random = generator(seed);
    Simulation::with_cpus(cpus, busy + 2, move |number| match number {
        0 => {
            has_spawned = !has_spawned;
            if has_spawned { (200 + random(100), Then::Spawn(1)) } else { (100, Then::Wait) }
        }
        1 => (200 + random(100), Then::End(0)),
        _ => COMPUTING,
    })
}

#[test]
fn threads_that_are_started_do_not_wait_for_the_slices_of_others() {
    for ((cpus, busy), seed) in MACHINES.into_iter().zip(0..) {
        let mut simulation = spawns(cpus, busy, seed);
        simulation.run(SECOND / 10);
        let ended = simulation.progress[1].steps * 10;
        assert!(ended > 300_000, "{ended} a second, {cpus} CPUs beside {busy}");
        let computing = least_share(&simulation, 2..2 + busy);
        assert!(computing > 0.7, "{computing} of an equal share, {cpus} CPUs beside {busy}");
    }
}

#[test]
fn messages_do_not_wait_for_the_slices_of_others() {
    for (cpus, busy) in MACHINES {
        let mut simulation = pair(cpus, busy);
        simulation.run(SECOND / 5);
        let messages = least_share(&simulation, 0..2);
        assert!(messages > 0.6, "{messages} of an equal share, {cpus} CPUs beside {busy}");
        let computing = least_share(&simulation, 2..2 + busy);
        assert!(computing > 0.7, "{computing} of an equal share, {cpus} CPUs beside {busy}");
    }
}

#[test]
fn computing_threads_that_cannot_be_distributed_evenly_take_turns() {
    for (cpus, count) in [(2, 3), (4, 5), (4, 7), (3, 4)] {
        let mut simulation = Simulation::with_cpus(cpus, count, |_| COMPUTING);
        simulation.run(4 * SECOND);
        let least = least_share(&simulation, 0..count);
        assert!(least > 0.9, "{least} of an equal share: {:?}", simulation.shares());
    }
}

#[test]
fn sleeper_runs_at_once_beside_computing_threads() {
    for (cpus, busy) in MACHINES {
        let sleeper = (5 * MICROSECOND, Then::Sleep(MILLISECOND));
        let mut simulation =
            Simulation::with_cpus(
                cpus,
                busy + 1,
                move |number| if number == busy { sleeper } else { COMPUTING },
            );
        simulation.run(SECOND);
        assert!(simulation.late(busy) < 20 * MICROSECOND, "{} ns", simulation.late(busy));
    }
}

#[test]
fn many_timers_run_at_once_beside_computing_threads() {
    for (cpus, busy) in [(1, 1), (1, 2), (2, 2), (2, 4)] {
        let mut simulation = Simulation::with_cpus(cpus, busy + 100, move |number| {
            let milliseconds = 10 + number as u64 % 8;
            if number < busy { COMPUTING } else { (5 * MICROSECOND, Then::Sleep(milliseconds * MILLISECOND)) }
        });
        simulation.run(SECOND);
        let late = simulation.progress[busy..].iter().flat_map(|progress| progress.late_ns.iter().copied());
        let late = vec::Vec::from_iter(late);
        // Not all, since threads that wake at the same time run one after the other.
        let soon = late.iter().filter(|&&late| late <= 100 * MICROSECOND).count();
        assert!(soon * 100 >= late.len() * 99, "{cpus} CPUs, {busy} computing: {soon} of {}", late.len());
    }
}
