//! Rounds in which more threads hold registers at once than there are CPUs.

use std::fmt::Write;
use std::sync::Barrier;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::{panic, process, thread};

use crate::arithmetic;
use crate::control::ControlWords;
use crate::disturbance::Disturbances;
use crate::registers::{RegisterSet, Registers};

/// Preemptions after which there are enough.
const PREEMPTIONS: usize = 60;

/// Migrations of threads that hold registers after which there are enough.
const MIGRATIONS: usize = 5;

/// Disturbances of each kind after which there are enough.
const DISTURBANCES: usize = 10;

/// Number of rounds after which an event that has not occurred is taken to be impossible.
const MAX_ROUNDS: usize = 5_000;

/// State that the threads share.
#[derive(Debug)]
struct Run {
    cpus: usize,
    threads: usize,
    barrier: Barrier,
    /// Number of times that a thread has arrived in a round, in all rounds.
    arrived: AtomicUsize,
    migrations: AtomicUsize,
    is_over: AtomicBool,
    disturbances: Disturbances,
}

/// Runs rounds until there were enough preemptions, migrations and disturbances; returns how many. Ends the
/// process with code 1 if a thread loses a bit of a register, or if [`MAX_ROUNDS`] are not enough: the other
/// threads would wait for one that panics.
pub(crate) fn run(disk: Option<&str>) -> String {
    panic::set_hook(Box::new(|failure| {
        eprintln!("failed: {failure}");
        process::exit(1);
    }));
    let sets = RegisterSet::available();
    let cpus = thread::available_parallelism().expect("the number of CPUs is unknown").get();
    let threads = 2 * cpus + sets.len();
    let run = &Run {
        cpus,
        threads,
        barrier: Barrier::new(threads),
        arrived: AtomicUsize::new(0),
        migrations: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        disturbances: Disturbances::new(disk),
    };
    let is_over = &|| run.is_over.load(Acquire);
    thread::scope(|scope| {
        run.disturbances.start(scope, disk, is_over);
        for index in 0..threads {
            let set = sets[index % sets.len()];
            scope.spawn(move || {
                (0..).take_while(|_| !is_over()).for_each(|round| run.round(set, index, round));
            });
        }
    });
    run.summary(&sets)
}

impl Run {
    /// Holds registers, or computes, until all threads do; the last thread decides whether the run is over.
    ///
    /// A thread that has arrived makes no call until all have arrived. So when the last one arrives, no more
    /// than `cpus` threads can be running: all others were preempted with live registers.
    fn round(&self, set: RegisterSet, index: usize, round: usize) {
        let target = (round + 1) * self.threads;
        if round.is_multiple_of(2) {
            let seed = (round * self.threads + index) as u64;
            let registers = Registers::random(set, ControlWords::numbered(index + round), seed);
            let held = registers.hold(set, &self.arrived, target);
            held.registers.expect(&registers, set);
            self.migrations.fetch_add(usize::from(held.is_migrated), Relaxed);
        } else {
            arithmetic::compute(set, &self.arrived, target);
        }
        // Waiting here leaves CPUs idle, which then steal threads that still hold registers.
        if self.barrier.wait().is_leader() {
            self.is_over.store(self.is_enough(round + 1), Release);
        }
        self.barrier.wait();
    }

    /// Number of preemptions in so many rounds, at least.
    fn preemptions(&self, rounds: usize) -> usize {
        rounds * (self.threads - self.cpus)
    }

    fn is_enough(&self, rounds: usize) -> bool {
        let migrates = self.cpus > 1 && cfg!(target_os = "hermit");
        let is_enough = self.preemptions(rounds) >= PREEMPTIONS
            && (!migrates || self.migrations.load(Relaxed) >= MIGRATIONS)
            && self.disturbances.have_occurred(DISTURBANCES);
        assert!(is_enough || rounds < MAX_ROUNDS, "not enough: {}", self.counts());
        is_enough
    }

    fn counts(&self) -> String {
        let rounds = self.arrived.load(Relaxed) / self.threads;
        format!(
            "{} rounds, {} or more preemptions, {} migrations, {}",
            rounds,
            self.preemptions(rounds),
            self.migrations.load(Relaxed),
            self.disturbances
        )
    }

    fn summary(&self, sets: &[RegisterSet]) -> String {
        let mut text = format!("{} threads on {} CPUs kept the registers of", self.threads, self.cpus);
        for set in sets {
            write!(text, " {set},").expect("a string takes everything");
        }
        text + " " + &self.counts()
    }
}
