//! Simulation of one CPU in virtual time: threads that compute, sleep, yield and wake each other, with the fair policy.
//!
//! The simulated kernel does what the real one does with the results of the scheduler: it starts time slices, handles the
//! timer, and preempts.

extern crate std;

use core::cell::Cell;
use std::boxed::Box;
use std::sync::Mutex;
use std::vec::Vec;

use crate::cpu::Cpu;
use crate::cpus::{Cpus, Reschedule};
use crate::list::same;
use crate::policy::{CREDIT_NS, Fair, Policy as _};
use crate::testing::{TestThread, threads};
use crate::thread::NORMAL_PRIORITY;

type Policy = Fair<TestThread>;
type Queue = Mutex<Policy>;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const SLICE: u64 = match Policy::SLICE {
    Some(slice) => slice,
    None => 0,
};

/// Action of a thread at the end of a step.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Sleeps for so many nanoseconds.
    Sleep(u64),
    Yield,
    /// Wakes the thread of this number.
    Wake(usize),
    /// Waits until it is woken.
    Wait,
}

/// A step of a thread: it runs for some nanoseconds, and does something else.
type Step = (u64, Then);

/// The step of a thread that never does anything but run.
const COMPUTING: Step = (1 << 62, Then::Yield);

/// State and measurements of a thread.
#[derive(Clone, Debug)]
struct Progress {
    ran_ns: u64,
    /// Time until the end of the step.
    left_ns: u64,
    then: Then,
    wakes_at: Option<u64>,
    ready_since: u64,
    is_woken: bool,
    /// Times from the end of a sleep until the thread ran.
    late_ns: Vec<u64>,
    /// Longest time for which the thread was ready without running.
    longest_wait_ns: u64,
}

/// One CPU, and threads whose steps `next_step` gives by their numbers.
struct Simulation<F> {
    cpus: Cpus<TestThread, Policy, Queue>,
    cpu: &'static Cpu<TestThread, Policy, Queue>,
    idle: &'static TestThread,
    threads: Vec<&'static TestThread>,
    progress: Vec<Progress>,
    next_step: F,
    now: u64,
    slice_end: Option<u64>,
    switches: u64,
    clock_reads: Cell<u64>,
}

impl<F: FnMut(usize) -> Step> Simulation<F> {
    /// Creates a CPU with `count` ready threads of normal priority.
    fn new(count: usize, mut next_step: F) -> Self {
        let idle = threads(1)[0];
        let cpu: &'static Cpu<_, _, _> = Box::leak(Box::new(Cpu::new(0, idle, Queue::default())));
        let cpus = Cpus::new();
        cpus.add_cpu(cpu);
        let threads = threads(count);
        let progress = (0..count).map(|number| {
            let (left_ns, then) = next_step(number);
            let (wakes_at, is_woken, late_ns) = (None, false, Vec::new());
            Progress {
                ran_ns: 0,
                left_ns,
                then,
                wakes_at,
                ready_since: 0,
                is_woken,
                late_ns,
                longest_wait_ns: 0,
            }
        });
        let progress = progress.collect();
        let (slice_end, clock_reads) = (None, Cell::new(0));
        let simulation = Self {
            cpus,
            cpu,
            idle,
            threads,
            progress,
            next_step,
            now: 0,
            slice_end,
            switches: 0,
            clock_reads,
        };
        cpu.switch_to_idle(idle);
        for thread in &simulation.threads {
            thread.entity.set_priority(NORMAL_PRIORITY);
            let _: Reschedule = simulation.cpus.make_ready(thread, || 0);
        }
        simulation
    }

    fn clock(&self) -> u64 {
        self.clock_reads.set(self.clock_reads.get() + 1);
        self.now
    }

    fn begin_step(&mut self, number: usize) {
        let (left_ns, then) = (self.next_step)(number);
        (self.progress[number].left_ns, self.progress[number].then) = (left_ns, then);
    }

    fn is_idle(&self) -> bool {
        same(self.cpu.current(), self.idle)
    }

    fn wake(&mut self, number: usize) {
        self.progress[number].ready_since = self.now;
        let must_reschedule = self.cpus.wake(self.threads[number], || self.clock());
        if must_reschedule != Reschedule::None && !self.is_idle() {
            self.start_slice_if_needed();
            self.preempt(false);
        }
    }

    fn start_slice_if_needed(&mut self) {
        if self.cpu.needs_slice() && !self.is_idle() {
            self.cpu.start_slice();
            self.slice_end = self.cpu.slice_ns().map(|slice| self.now + slice);
        }
    }

    fn preempt(&mut self, is_slice_over: bool) {
        let current = self.cpu.current();
        if is_slice_over {
            self.slice_end = None;
        }
        let next = self.cpu.preempt(is_slice_over, || self.clock());
        self.start_slice_if_needed();
        if let Some(next) = next {
            self.progress[current.number].ready_since = self.now;
            self.switch_to(next);
        }
    }

    fn switch_to(&mut self, next: &'static TestThread) {
        self.switches += 1;
        let progress = &mut self.progress[next.number];
        let wait_ns = self.now - progress.ready_since;
        progress.longest_wait_ns = progress.longest_wait_ns.max(wait_ns);
        if core::mem::take(&mut progress.is_woken) {
            progress.late_ns.push(wait_ns);
        }
    }

    /// The idle CPU looks at its run queue.
    fn leave_idle(&mut self) {
        if let Some(next) = self.cpus.pick_next_or_idle(self.cpu, || self.now) {
            self.cpu.stamp(self.now);
            self.start_slice_if_needed();
            self.switch_to(next);
        }
    }

    /// The current thread is parked: the next one runs.
    fn switch_away(&mut self) {
        match self.cpu.pick_next(|| self.clock()) {
            Some(next) => self.switch_to(next),
            None => {
                self.cpu.switch_to_idle(self.idle);
                self.leave_idle();
            }
        }
    }

    /// Runs for so many nanoseconds.
    fn run(&mut self, time_ns: u64) {
        let end = self.now + time_ns;
        while self.now < end {
            if self.is_idle() {
                self.leave_idle();
            }
            let sleeps = self.progress.iter().enumerate();
            let wake = sleeps.filter_map(|(number, progress)| Some((progress.wakes_at?, number))).min();
            let current = (!self.is_idle()).then(|| self.cpu.current().number);
            let step_end = current.map_or(end, |number| self.now + self.progress[number].left_ns);
            let slice_end = self.slice_end.unwrap_or(end);
            let wakes_at = wake.map_or(end, |(at, _)| at);
            let next = end.min(wakes_at).min(slice_end).min(step_end);
            if let Some(number) = current {
                self.progress[number].ran_ns += next - self.now;
                self.progress[number].left_ns -= next - self.now;
            }
            self.now = next;
            match (wake, current) {
                (Some((at, number)), _) if at == next => self.timer_wakes(number),
                _ if self.slice_end == Some(next) => self.slice_ends(),
                (_, Some(number)) if step_end == next => self.step_ends(number),
                _ => {}
            }
        }
    }

    fn timer_wakes(&mut self, number: usize) {
        if !self.is_idle() {
            self.cpu.observe_current(|| self.now);
        }
        self.progress[number].wakes_at = None;
        self.progress[number].is_woken = true;
        self.wake(number);
    }

    fn slice_ends(&mut self) {
        if self.cpu.try_end_slice(self.is_idle(), || self.now) {
            self.slice_end = None;
        } else {
            self.preempt(true);
        }
    }

    fn step_ends(&mut self, number: usize) {
        let then = self.progress[number].then;
        self.begin_step(number);
        match then {
            Then::Sleep(time_ns) => {
                self.progress[number].wakes_at = Some(self.now + time_ns.max(1));
                assert!(self.threads[number].entity.park());
                self.switch_away();
            }
            Then::Yield => {
                if let Some(next) = self.cpu.yield_now(self.threads[number], || self.clock()) {
                    self.progress[number].ready_since = self.now;
                    self.switch_to(next);
                }
            }
            Then::Wake(other) => self.wake(other),
            Then::Wait => {
                if self.threads[number].entity.park() {
                    self.switch_away();
                }
            }
        }
    }

    /// Longest time for which a thread was ready without running.
    fn longest_wait(&self, number: usize) -> u64 {
        let progress = &self.progress[number];
        let is_ready = progress.wakes_at.is_none() && !same(self.threads[number], self.cpu.current());
        let wait_ns = if is_ready { self.now - progress.ready_since } else { 0 };
        progress.longest_wait_ns.max(wait_ns)
    }

    /// Run times of all threads, in shares of the time.
    fn shares(&self) -> Vec<f64> {
        let total: u64 = self.progress.iter().map(|progress| progress.ran_ns).sum();
        self.progress.iter().map(|progress| ratio(progress.ran_ns, total)).collect()
    }

    /// 99th percentile of the lateness of a thread's sleeps, in nanoseconds.
    fn late(&self, number: usize) -> u64 {
        let mut late = self.progress[number].late_ns.clone();
        late.sort_unstable();
        late[late.len() * 99 / 100]
    }
}

#[expect(clippy::cast_precision_loss, reason = "53 bits count nanoseconds for months")]
fn ratio(part: u64, total: u64) -> f64 {
    part as f64 / total as f64
}

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

/// A pair of threads that wake each other, beside `busy` threads that compute.
fn pair(busy: usize) -> Simulation<impl FnMut(usize) -> Step> {
    let mut is_waiting = [false; 2];
    Simulation::new(busy + 2, move |number| {
        let Some(waits) = is_waiting.get_mut(number) else { return COMPUTING };
        *waits = !*waits;
        (MICROSECOND, if *waits { Then::Wake(1 - number) } else { Then::Wait })
    })
}

#[test]
fn messages_beside_computing_threads_get_their_share() {
    for busy in [1, 2] {
        let mut simulation = pair(busy);
        simulation.run(SECOND / 2);
        let shares = simulation.shares();
        let fair = ratio(1, 2 + busy as u64);
        assert!(shares.iter().all(|share| (share / fair - 1.0).abs() < 0.1), "{shares:?}");
    }
}

#[test]
fn messages_alone_hardly_read_the_clock() {
    let mut simulation = pair(0);
    simulation.run(SECOND / 4);
    assert!(simulation.switches > 100_000);
    let reads = ratio(simulation.clock_reads.get(), simulation.switches);
    assert!(reads < 0.05, "{reads} reads of the clock for each switch");
}

/// Maximum time for which a thread is ready, in nanoseconds, for each of the others. That may be behind the virtual time by its
/// credit, and the thread ahead of it by a slice; and when both are equal, it has begun a slice.
const MAX_WAIT_NS: u64 = CREDIT_NS + 2 * SLICE;

/// A generator of numbers below a limit.
fn generator(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |limit| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    }
}

/// Simulates random schedules: some threads compute, others sleep or yield. Returns the longest time for which a thread was
/// ready, in nanoseconds, for each of the other threads.
fn longest_wait(schedules: u32) -> u64 {
    let mut next = generator(1);
    let waits = (0..schedules).map(|_| {
        let count = 2 + next(7);
        let kinds: Vec<_> =
            (0..count).map(|_| (next(4), 1 + next(5 * MILLISECOND), 1 + next(10 * MILLISECOND))).collect();
        let mut part = generator(next(u64::MAX));
        let mut simulation = Simulation::new(kinds.len(), move |number| {
            let (kind, run_ns, sleep_ns) = kinds[number];
            let part = 1 + part(1_000);
            match kind {
                0 => COMPUTING,
                1 => (run_ns * part / 1_000, Then::Sleep(sleep_ns)),
                2 => (run_ns / 10 * part / 1_000, Then::Yield),
                _ => (run_ns / 100, Then::Sleep(sleep_ns * part / 1_000)),
            }
        });
        simulation.run(SECOND / 5);
        let waits = (0..simulation.progress.len()).map(|number| simulation.longest_wait(number));
        waits.max().unwrap_or_default() / (count - 1)
    });
    waits.max().unwrap_or_default()
}

#[test]
fn no_thread_waits_longer_than_its_bound() {
    let longest = longest_wait(300);
    assert!(longest < MAX_WAIT_NS, "{longest} ns");
}

#[test]
#[ignore = "takes minutes, and gigabytes for threads that are never freed"]
fn no_thread_waits_longer_than_its_bound_in_a_million_schedules() {
    let longest = longest_wait(1_000_000);
    assert!(longest < MAX_WAIT_NS, "{longest} ns");
}
