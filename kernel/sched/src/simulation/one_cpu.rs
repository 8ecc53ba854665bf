//! Shares and waits of threads on one CPU.

extern crate std;

use super::{COMPUTING, MICROSECOND, MILLISECOND, SECOND, SLICE, Simulation, Then, pair, ratio};

#[test]
fn computing_threads_get_equal_shares() {
    for count in [2, 3, 7] {
        let mut simulation = Simulation::new(count, |_| COMPUTING);
        simulation.run(2 * SECOND);
        let shares = simulation.shares();
        let fair = ratio(1, count as u64);
        assert!(shares.iter().all(|share| (share / fair - 1.0).abs() < 0.03), "{shares:?}");
    }
}

#[test]
fn sleeper_runs_at_once_beside_computing_threads() {
    for busy in [1, 2, 4] {
        for sleep_ns in [50 * MICROSECOND, 300 * MICROSECOND, MILLISECOND, 20 * MILLISECOND] {
            let sleeper = (5 * MICROSECOND, Then::Sleep(sleep_ns));
            let mut simulation =
                Simulation::new(busy + 1, move |number| if number == busy { sleeper } else { COMPUTING });
            simulation.run(2 * SECOND);
            assert!(simulation.progress[busy].late_ns.len() > 95);
            assert_eq!(simulation.late(busy), 0, "sleep of {sleep_ns} ns beside {busy}");
            assert!(simulation.shares()[0] > 0.88 / ratio(busy as u64, 1));
        }
    }
}

/// The thread comes back after a short sleep each time, before its time slice is over.
#[test]
fn sleeping_shortly_yields_no_more_than_a_share() {
    let sleeper = (SLICE * 9 / 10, Then::Sleep(SLICE / 10));
    let mut simulation = Simulation::new(2, move |number| if number == 0 { sleeper } else { COMPUTING });
    simulation.run(2 * SECOND);
    let shares = simulation.shares();
    assert!(shares[0] < 0.53 && shares[0] > 0.4, "{shares:?}");
}

#[test]
fn messages_beside_computing_threads_get_their_share() {
    for busy in [1, 2] {
        let mut simulation = pair(1, busy);
        simulation.run(SECOND / 2);
        let shares = simulation.shares();
        let fair = ratio(1, 2 + busy as u64);
        assert!(shares.iter().all(|share| (share / fair - 1.0).abs() < 0.1), "{shares:?}");
    }
}

#[test]
fn messages_alone_hardly_read_the_clock() {
    let mut simulation = pair(1, 0);
    simulation.run(SECOND / 4);
    assert!(simulation.switches > 100_000);
    let reads = ratio(simulation.clock_reads.get(), simulation.switches);
    assert!(reads < 0.05, "{reads} reads of the clock for each switch");
}
