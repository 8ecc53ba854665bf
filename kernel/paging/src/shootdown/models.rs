//! Models for loom. They check that after a shootdown no TLB has an entry that the page tables had before the
//! change.
//!
//! The package `hermit-models` compiles this crate with `cfg(loom)`: `cargo test -p hermit-models --test
//! paging`.

extern crate std;

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::boxed::Box;
use std::println;

use loom::sync::atomic::{AtomicBool, AtomicU32, fence};
use loom::thread::{spawn, yield_now};

use super::{FlushScope, Shootdown};

const CPUS: usize = 2;

/// Two CPUs that use the same page tables, which consist of one entry.
#[derive(Debug)]
struct Machine {
    shootdown: Shootdown,
    /// Value of the entry in memory. It only increases.
    entry: AtomicU32,
    /// Value of the entry in the TLB of each CPU.
    tlbs: [AtomicU32; CPUS],
    /// Pending IPIs.
    ipis: [AtomicBool; CPUS],
    /// Oldest value of the entry that may still be used. The memory of earlier values is free.
    oldest: AtomicU32,
    /// Number of CPUs that make no more changes.
    finished: AtomicU32,
}

impl Machine {
    fn new() -> &'static Self {
        let shootdown = Shootdown::new();
        (0..2).for_each(|cpu| shootdown.join(cpu, || ()));
        Box::leak(Box::new(Self {
            shootdown,
            entry: AtomicU32::new(0),
            tlbs: [AtomicU32::new(0), AtomicU32::new(0)],
            ipis: [AtomicBool::new(false), AtomicBool::new(false)],
            oldest: AtomicU32::new(0),
            finished: AtomicU32::new(0),
        }))
    }

    /// Flushes a TLB. The TLB loads the entry again at once, so that it gets the oldest value that is
    /// possible.
    fn flush(&self, cpu: usize) {
        fence(SeqCst);
        self.tlbs[cpu].store(self.entry.load(Relaxed), Relaxed);
    }

    /// The handler of the IPI, if one is pending.
    fn interrupt(&self, cpu: usize) {
        if self.ipis[cpu].load(Acquire) && self.ipis[cpu].swap(false, AcqRel) {
            self.shootdown.flush_if_behind(number(cpu), || self.flush(cpu));
        }
    }

    /// Answers requests, as a CPU does while it waits for a lock or for other CPUs. IPIs interrupt it before
    /// and after the flush.
    fn flush_while_waiting(&self, cpu: usize) {
        self.shootdown.flush_if_behind(number(cpu), || {
            self.interrupt(cpu);
            self.flush(cpu);
            self.interrupt(cpu);
        });
        self.interrupt(cpu);
        yield_now();
    }

    /// Uses the entry in the TLB of a CPU.
    fn access(&self, cpu: usize) {
        let oldest = self.oldest.load(Acquire);
        assert!(self.tlbs[cpu].load(Relaxed) >= oldest, "memory is used that is free");
    }

    /// Changes the entry, and flushes all TLBs without a lock.
    fn change(&self, cpu: usize, scope: FlushScope) {
        let value = self.entry.fetch_add(1, Relaxed) + 1;
        let send_ipi = |cpus| {
            assert_eq!(cpus, 1 << (1 - cpu));
            self.ipis[1 - cpu].store(true, Release);
        };
        let wait = || self.flush_while_waiting(cpu);
        self.shootdown.flush_all(number(cpu), scope, || self.flush(cpu), send_ipi, wait);
        if scope == FlushScope::Tables {
            let is_new = |tlb: &AtomicU32| tlb.load(Relaxed) >= value;
            assert!(self.tlbs.iter().all(is_new), "a TLB has an entry from before the shootdown");
        }
        self.oldest.fetch_max(value, AcqRel);
        self.access(cpu);
    }

    /// Waits for an interrupt; another one may wake the CPU at any time.
    fn idle(&self, cpu: usize) {
        self.access(cpu);
        self.shootdown.enter_idle(number(cpu));
        self.interrupt(cpu);
        self.shootdown.leave_idle(number(cpu), || self.flush(cpu));
        self.access(cpu);
    }

    /// Makes one step after the other. Then answers requests until the other CPU has finished its steps.
    fn run(&self, cpu: usize, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Change(scope) => self.change(cpu, scope),
                Step::Idle => self.idle(cpu),
            }
        }
        self.finished.fetch_add(1, AcqRel);
        while self.finished.load(Acquire) < number(CPUS) {
            self.flush_while_waiting(cpu);
        }
        self.access(cpu);
    }
}

/// A step of a CPU.
#[derive(Clone, Copy, Debug)]
enum Step {
    Change(FlushScope),
    Idle,
}

const TABLES: Step = Step::Change(FlushScope::Tables);
const PAGES: Step = Step::Change(FlushScope::Pages);

fn number(cpu: usize) -> u32 {
    u32::try_from(cpu).unwrap()
}

/// Explores all executions of these steps with at most `switches` preemptions. The variable
/// `LOOM_MAX_PREEMPTIONS` can raise the bound.
fn explore(name: &str, switches: usize, steps: [&'static [Step]; CPUS]) {
    println!("{name}:");
    hermit_models::explore(switches, move || {
        let machine = Machine::new();
        let other = spawn(move || machine.run(1, steps[1]));
        machine.run(0, steps[0]);
        other.join().unwrap();
    });
}

#[test]
fn shootdowns_in_a_row_flush_a_waiting_cpu() {
    explore("shootdowns in a row", 2, [&[TABLES, TABLES], &[]]);
}

#[test]
fn shootdowns_of_two_cpus_at_the_same_time_flush_both() {
    explore("shootdowns of two CPUs", 2, [&[TABLES], &[TABLES]]);
}

#[test]
fn idle_cpu_flushes_before_it_uses_pages_again() {
    explore("shootdown beside an idle CPU", 3, [&[PAGES], &[Step::Idle]]);
}

#[test]
fn idle_cpu_flushes_after_each_shootdown() {
    explore("two shootdowns beside an idle CPU", 2, [&[PAGES, PAGES], &[Step::Idle]]);
}

#[test]
fn idle_cpu_flushes_page_tables_at_once() {
    explore("shootdown of tables beside an idle CPU", 3, [&[TABLES], &[Step::Idle]]);
}
