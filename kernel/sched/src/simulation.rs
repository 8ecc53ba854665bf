//! Simulation of CPUs in virtual time: threads that compute, sleep, yield, wake each other, start others and
//! lock a mutex, with the fair policy.
//!
//! The simulated kernel handles the results of the scheduler as the real kernel does: it starts time slices,
//! handles the timers, sends reschedule IPIs, and preempts.

extern crate std;

mod one_cpu;
mod random_schedules;
mod several_cpus;
mod steps;

use core::cell::Cell;
use core::sync::atomic::Ordering::Release;
use parking_lot::Mutex;
use std::boxed::Box;
use std::collections::VecDeque;
use std::vec::Vec;

use crate::cpu::Cpu;
use crate::cpus::{Cpus, Reschedule};
use crate::list::same;
use crate::policy::{Fair, Policy as _};
use crate::testing::{TestThread, threads};
use crate::thread::NORMAL_PRIORITY;
use steps::{COMPUTING, Step, Then, UNLOCKED};

type Policy = Fair<TestThread>;
type Queue = Mutex<Policy>;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const SLICE: u64 = match Policy::SLICE {
    Some(slice) => slice,
    None => 0,
};

/// Time from the request of a reschedule IPI until a CPU handles it: a CPU that runs a thread, or an idle
/// CPU.
const IPI_NS: u64 = 2 * MICROSECOND;
const IDLE_IPI_NS: u64 = 10 * MICROSECOND;

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
    /// Number of times that the thread has found the mutex locked while it spins.
    spins: u32,
    has_waited: bool,
    /// Number of steps that have ended.
    steps: u64,
    /// Times from the end of a sleep until the thread ran.
    late_ns: Vec<u64>,
    /// Longest time for which the thread was ready without running.
    longest_wait_ns: u64,
}

impl Progress {
    fn new((left_ns, then): Step) -> Self {
        Self {
            ran_ns: 0,
            left_ns,
            then,
            wakes_at: None,
            ready_since: 0,
            is_woken: false,
            spins: 0,
            has_waited: false,
            steps: 0,
            late_ns: Vec::new(),
            longest_wait_ns: 0,
        }
    }
}

/// A CPU, with its devices and the kernel's state of it.
struct SimulatedCpu {
    cpu: &'static Cpu<TestThread, Policy, Queue>,
    idle: &'static TestThread,
    /// The thread whose stack the CPU uses.
    runs: &'static TestThread,
    slice_end: Option<u64>,
    /// Time at which a reschedule IPI arrives.
    ipi_at: Option<u64>,
    /// True if the thread must be preempted at the end of the event.
    must_preempt: bool,
}

impl SimulatedCpu {
    fn is_idle(&self) -> bool {
        same(self.cpu.current(), self.idle)
    }
}

/// Next event of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The sleep of the thread of this number ends.
    Wake(usize),
    SliceEnd,
    Ipi,
    StepEnd,
}

/// CPUs and threads. `next_step` returns the next step of the thread of a number.
struct Simulation<F> {
    cpus: Cpus<TestThread, Policy, Queue>,
    machines: Vec<SimulatedCpu>,
    threads: Vec<&'static TestThread>,
    progress: Vec<Progress>,
    next_step: F,
    now: u64,
    mutex: u32,
    waiters: VecDeque<usize>,
    switches: u64,
    clock_reads: Cell<u64>,
}

impl<F: FnMut(usize) -> Step> Simulation<F> {
    /// Creates one CPU with `count` ready threads of normal priority.
    fn new(count: usize, next_step: F) -> Self {
        Self::with_cpus(1, count, next_step)
    }

    /// Creates CPUs, and `count` threads of normal priority. A thread whose first step is [`Then::End`] is
    /// not ready.
    fn with_cpus(cpus: u32, count: usize, mut next_step: F) -> Self {
        let machines = (0..cpus).map(|number| {
            let idle = threads(1)[0];
            idle.entity.assign_cpu(number, true);
            let cpu: &'static Cpu<_, _, _> = Box::leak(Box::new(Cpu::new(number, idle, Queue::default())));
            SimulatedCpu { cpu, idle, runs: idle, slice_end: None, ipi_at: None, must_preempt: false }
        });
        let machines: Vec<_> = machines.collect();
        let progress = (0..count).map(|number| Progress::new(next_step(number))).collect();
        let mut simulation = Self {
            cpus: Cpus::new(),
            machines,
            threads: threads(count),
            progress,
            next_step,
            now: 0,
            mutex: UNLOCKED,
            waiters: VecDeque::new(),
            switches: 0,
            clock_reads: Cell::new(0),
        };
        for machine in &simulation.machines {
            simulation.cpus.add_cpu(machine.cpu);
            machine.cpu.switch_to_idle(machine.idle);
            assert!(simulation.cpus.pick_next_or_idle(machine.cpu, || 0).is_none());
        }
        for number in 0..count {
            let thread = simulation.threads[number];
            thread.entity.set_priority(NORMAL_PRIORITY);
            if !matches!(simulation.progress[number].then, Then::End(_)) {
                let request = simulation.cpus.make_ready(thread, || 0);
                simulation.request(0, request);
            }
        }
        simulation.look(0);
        simulation
    }

    fn clock(&self) -> u64 {
        self.clock_reads.set(self.clock_reads.get() + 1);
        self.now
    }

    /// Runs the simulation for `time_ns` nanoseconds.
    fn run(&mut self, time_ns: u64) {
        let end = self.now + time_ns;
        while let Some((at, cpu, event)) = self.next_event().filter(|&(at, ..)| at <= end) {
            self.pass(at);
            self.handle(cpu, event);
        }
        self.pass(end);
    }

    /// The next event, with its time and CPU.
    fn next_event(&self) -> Option<(u64, usize, Event)> {
        let wakes = self.progress.iter().enumerate();
        let wakes = wakes.filter_map(|(number, progress)| {
            Some((progress.wakes_at?, self.home(number), Event::Wake(number)))
        });
        let of_cpus = self.machines.iter().enumerate().flat_map(|(number, machine)| {
            let step_end =
                (!machine.is_idle()).then(|| self.now + self.progress[machine.cpu.current().number].left_ns);
            let slice_end = machine.slice_end.map(|at| (at, number, Event::SliceEnd));
            let ipi = machine.ipi_at.map(|at| (at, number, Event::Ipi));
            [slice_end, ipi, step_end.map(|at| (at, number, Event::StepEnd))].into_iter().flatten()
        });
        wakes.chain(of_cpus).min_by_key(|&(at, cpu, event)| (at, event, cpu))
    }

    /// Lets time pass until `at`, before the next event.
    fn pass(&mut self, at: u64) {
        let time_ns = at - self.now;
        for machine in self.machines.iter().filter(|machine| !machine.is_idle()) {
            let progress = &mut self.progress[machine.cpu.current().number];
            progress.ran_ns += time_ns;
            progress.left_ns -= time_ns;
        }
        self.now = at;
    }

    fn handle(&mut self, cpu: usize, event: Event) {
        match event {
            Event::Wake(number) => self.timer_wakes(cpu, number),
            Event::SliceEnd => self.slice_ends(cpu),
            Event::Ipi => {
                self.machines[cpu].ipi_at = None;
                self.check_ready(cpu);
            }
            Event::StepEnd => self.step_ends(cpu),
        }
        if core::mem::take(&mut self.machines[cpu].must_preempt) {
            self.preempt(cpu);
        }
        if self.machines[cpu].is_idle() {
            self.cpus.leave_idle(self.machines[cpu].cpu.number());
            self.look(cpu);
        }
    }

    /// The CPU on which a thread last ran.
    fn home(&self, number: usize) -> usize {
        self.threads[number].entity.cpu() as usize
    }

    /// Fulfils a request that the scheduler has made on the CPU `cpu`.
    fn request(&mut self, cpu: usize, request: Reschedule) {
        let Reschedule::Cpu(number) = request else { return };
        let number = number as usize;
        if number == cpu {
            return self.check_ready(cpu);
        }
        let machine = &mut self.machines[number];
        let at = self.now + if machine.is_idle() { IDLE_IPI_NS } else { IPI_NS };
        machine.ipi_at = Some(machine.ipi_at.map_or(at, |earlier| earlier.min(at)));
    }

    fn check_ready(&mut self, cpu: usize) {
        if self.machines[cpu].is_idle() {
            return;
        }
        if self.machines[cpu].cpu.needs_slice() {
            self.start_slice_if_needed(cpu);
            self.request_stealer(cpu);
        }
        self.machines[cpu].must_preempt = true;
    }

    fn start_slice_if_needed(&mut self, cpu: usize) {
        let machine = &mut self.machines[cpu];
        if machine.cpu.needs_slice() && !machine.is_idle() {
            machine.slice_end = machine.cpu.start_slice().map(|slice| self.now + slice);
        }
    }

    fn request_stealer(&mut self, cpu: usize) {
        let request = self.cpus.reschedule_stealer(self.machines[cpu].cpu);
        self.request(cpu, request);
    }

    fn preempt(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        if machine.is_idle() {
            return;
        }
        let cpu = machine.cpu;
        let has_ended = machine.slice_end.take_if(|end| *end <= self.now).is_some();
        let is_over = has_ended && !cpu.end_trial();
        if is_over {
            let request = self.cpus.balance(cpu, || self.clock());
            self.request(number, request);
        }
        let current = cpu.current();
        let next = cpu.preempt(is_over, || self.clock());
        self.start_slice_if_needed(number);
        self.request_stealer(number);
        self.machines[number].must_preempt = false;
        if let Some(next) = next {
            self.progress[current.number].ready_since = self.now;
            self.switch_to(number, next);
        }
    }

    /// Makes the CPU use the stack of `next` instead of that of the previous thread.
    fn switch_stack(&mut self, cpu: usize, next: &'static TestThread) {
        next.running.store(true, Release);
        core::mem::replace(&mut self.machines[cpu].runs, next).running.store(false, Release);
    }

    fn switch_to(&mut self, cpu: usize, next: &'static TestThread) {
        self.switch_stack(cpu, next);
        self.switches += 1;
        let progress = &mut self.progress[next.number];
        let wait_ns = self.now - progress.ready_since;
        progress.longest_wait_ns = progress.longest_wait_ns.max(wait_ns);
        if core::mem::take(&mut progress.is_woken) {
            progress.late_ns.push(wait_ns);
        }
    }

    /// The idle CPU looks for a thread.
    fn look(&mut self, number: usize) {
        let cpu = self.machines[number].cpu;
        if let Some(next) = self.cpus.pick_next_or_idle(cpu, || self.now) {
            cpu.stamp(self.now);
            self.request_stealer(number);
            self.start_slice_if_needed(number);
            self.switch_to(number, next);
        }
    }

    /// The current thread is parked or has ended: the next one runs.
    fn switch_away(&mut self, cpu: usize) {
        let machine = &self.machines[cpu];
        match machine.cpu.pick_next(|| self.clock()) {
            Some(next) => self.switch_to(cpu, next),
            None => self.switch_stack(cpu, machine.cpu.switch_to_idle(machine.idle)),
        }
    }

    /// The current thread of the CPU wakes another.
    fn wake(&mut self, cpu: usize, number: usize) {
        self.progress[number].ready_since = self.now;
        let machine = &self.machines[cpu];
        let request = self.cpus.wake_from(|| machine.cpu, self.threads[number], || self.clock());
        self.request(cpu, request);
    }

    fn timer_wakes(&mut self, cpu: usize, number: usize) {
        let machine = &self.machines[cpu];
        if !machine.is_idle() {
            machine.cpu.observe_current(|| self.now);
        }
        self.progress[number].wakes_at = None;
        self.progress[number].is_woken = true;
        self.progress[number].ready_since = self.now;
        let request = self.cpus.wake(self.threads[number], || self.clock());
        self.request(cpu, request);
    }

    fn slice_ends(&mut self, cpu: usize) {
        let machine = &mut self.machines[cpu];
        if machine.cpu.try_end_slice(machine.is_idle(), || self.now) {
            machine.slice_end = None;
        } else {
            self.preempt(cpu);
        }
    }

    /// Longest time for which a thread was ready without running.
    fn longest_wait(&self, number: usize) -> u64 {
        let progress = &self.progress[number];
        let runs = self.machines.iter().any(|machine| same(self.threads[number], machine.cpu.current()));
        let is_ready = progress.wakes_at.is_none() && !runs;
        let wait_ns = if is_ready { self.now - progress.ready_since } else { 0 };
        progress.longest_wait_ns.max(wait_ns)
    }

    /// Share of each thread in the total run time.
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

/// A generator of numbers below a limit.
fn generator(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |limit| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    }
}

/// Two threads that wake each other, and `busy` threads that compute.
fn pair(cpus: u32, busy: usize) -> Simulation<impl FnMut(usize) -> Step> {
    let mut is_waiting = [false; 2];
    Simulation::with_cpus(cpus, busy + 2, move |number| {
        let Some(waits) = is_waiting.get_mut(number) else { return COMPUTING };
        *waits = !*waits;
        (MICROSECOND, if *waits { Then::Wake(1 - number) } else { Then::Wait })
    })
}
