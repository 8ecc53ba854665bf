//! Models for loom: no TLB has an entry that the page tables had before a shootdown that has returned.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p hermit-paging --lib --release --target-dir target/loom -- --nocapture`

extern crate std;

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::boxed::Box;
use std::println;
use std::sync::atomic::AtomicUsize;

use loom::model::Builder;
use loom::sync::atomic::{AtomicBool, AtomicU32, fence};
use loom::thread::{spawn, yield_now};

use super::Shootdown;

const CPUS: usize = 2;

/// Two CPUs that use the same page tables, which consist of one entry.
#[derive(Debug)]
struct Machine {
    shootdown: Shootdown,
    /// Value of the entry in memory; it only increases.
    entry: AtomicU32,
    /// Value of the entry in the TLB of each CPU.
    tlbs: [AtomicU32; CPUS],
    /// Pending IPIs.
    ipis: [AtomicBool; CPUS],
    /// The lock under which the entry is changed.
    locked: AtomicBool,
    /// Number of CPUs that make no more changes.
    finished: AtomicU32,
}

impl Machine {
    fn new() -> &'static Self {
        let shootdown = Shootdown::new(0);
        shootdown.join(1, || ());
        Box::leak(Box::new(Self {
            shootdown,
            entry: AtomicU32::new(0),
            tlbs: [AtomicU32::new(0), AtomicU32::new(0)],
            ipis: [AtomicBool::new(false), AtomicBool::new(false)],
            locked: AtomicBool::new(false),
            finished: AtomicU32::new(0),
        }))
    }

    /// Flushes a TLB, which loads the entry again at once: so it has the oldest value that it can have.
    fn flush(&self, cpu: usize) {
        fence(SeqCst);
        self.tlbs[cpu].store(self.entry.load(Relaxed), Relaxed);
    }

    /// The handler of the IPI, if one is pending.
    fn interrupt(&self, cpu: usize) {
        if self.ipis[cpu].load(Acquire) && self.ipis[cpu].swap(false, AcqRel) {
            self.shootdown.flush_if_requested(number(cpu), || self.flush(cpu));
        }
    }

    /// Answers requests as a CPU does that waits for a lock; IPIs interrupt it before and after the flush.
    fn flush_while_waiting(&self, cpu: usize) {
        self.shootdown.flush_if_requested(number(cpu), || {
            self.interrupt(cpu);
            self.flush(cpu);
            self.interrupt(cpu);
        });
        self.interrupt(cpu);
        yield_now();
    }

    /// Changes the entry under the lock, and flushes all TLBs.
    fn change(&self, cpu: usize) {
        while self.locked.load(Relaxed) || self.locked.swap(true, Acquire) {
            self.flush_while_waiting(cpu);
        }
        let value = self.entry.load(Relaxed) + 1;
        self.entry.store(value, Relaxed);
        let send_ipi = || self.ipis[1 - cpu].store(true, Release);
        self.shootdown.flush_all(number(cpu), || self.flush(cpu), send_ipi, yield_now);
        for tlb in &self.tlbs {
            assert!(tlb.load(Relaxed) >= value, "a TLB has an entry from before the shootdown");
        }
        self.locked.store(false, Release);
    }

    /// Changes the entry `changes` times, then only answers requests until the other CPU has made its changes.
    fn run(&self, cpu: usize, changes: usize) {
        (0..changes).for_each(|_| self.change(cpu));
        self.finished.fetch_add(1, AcqRel);
        while self.finished.load(Acquire) < number(CPUS) {
            self.flush_while_waiting(cpu);
        }
    }
}

fn number(cpu: usize) -> u32 {
    u32::try_from(cpu).unwrap()
}

/// Explores all executions with at most three preemptions in which the CPUs make these numbers of changes.
fn explore(name: &str, changes: [usize; CPUS]) {
    let executions = &*Box::leak(Box::new(AtomicUsize::new(0)));
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        executions.fetch_add(1, Relaxed);
        let machine = Machine::new();
        let other = spawn(move || machine.run(1, changes[1]));
        machine.run(0, changes[0]);
        other.join().unwrap();
    });
    println!("{name}: {} executions", executions.load(Relaxed));
}

#[test]
fn shootdowns_in_a_row_flush_a_waiting_cpu() {
    explore("shootdowns in a row", [2, 0]);
}

#[test]
fn shootdowns_of_two_cpus_flush_both() {
    explore("shootdowns of two CPUs", [1, 1]);
}
