//! Steps of threads: the action of a thread after it has run for some time.

use super::Simulation;
use crate::testing::TestThread;

/// For a thread that spins for the mutex: time between two checks of the mutex, and number of checks (std's
/// `futex::Mutex`).
const SPIN_NS: u64 = 20;
const MAX_SPINS: u32 = 100;

/// States of the mutex, which are those of std's mutex.
pub(super) const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

/// Action of a thread at the end of a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    /// Sleeps for this number of nanoseconds.
    Sleep(u64),
    Yield,
    /// Wakes the thread of this number.
    Wake(usize),
    /// Waits until it is woken.
    Wait,
    /// Locks the mutex.
    Lock,
    /// Unlocks the mutex, as std does.
    Unlock,
    /// Starts the thread of this number, which has ended.
    Spawn(usize),
    /// Ends, until it is started again. Wakes the thread of this number, which waits for the end.
    End(usize),
}

/// A step of a thread: the thread runs for this number of nanoseconds, and then does this action.
pub(super) type Step = (u64, Then);

/// The step of a thread that never does anything but run.
pub(super) const COMPUTING: Step = (1 << 62, Then::Yield);

impl<F: FnMut(usize) -> Step> Simulation<F> {
    fn begin_step(&mut self, number: usize) {
        self.progress[number].steps += 1;
        let (left_ns, then) = (self.next_step)(number);
        (self.progress[number].left_ns, self.progress[number].then) = (left_ns, then);
    }

    pub(super) fn step_ends(&mut self, cpu: usize) {
        let thread = self.machines[cpu].cpu.current();
        let number = thread.number;
        let then = self.progress[number].then;
        if !matches!(then, Then::Lock | Then::End(_)) {
            self.begin_step(number);
        }
        match then {
            Then::Sleep(time_ns) => {
                self.progress[number].wakes_at = Some(self.now + time_ns.max(1));
                self.park(cpu, thread);
            }
            Then::Yield => {
                if let Some(next) = self.machines[cpu].cpu.yield_now(thread, || self.clock()) {
                    self.progress[number].ready_since = self.now;
                    self.switch_to(cpu, next);
                }
            }
            Then::Wake(other) => self.wake(cpu, other),
            Then::Wait => self.park(cpu, thread),
            Then::Lock => self.lock(cpu, thread),
            Then::Unlock => {
                if core::mem::replace(&mut self.mutex, UNLOCKED) == CONTENDED
                    && let Some(waiter) = self.waiters.pop_front()
                {
                    self.wake(cpu, waiter);
                }
            }
            Then::Spawn(other) => self.spawn(cpu, other),
            Then::End(joining) => {
                self.wake(cpu, joining);
                self.switch_away(cpu);
            }
        }
    }

    fn park(&mut self, cpu: usize, thread: &'static TestThread) {
        if thread.entity.park() {
            self.switch_away(cpu);
        }
    }

    fn lock(&mut self, cpu: usize, thread: &'static TestThread) {
        let progress = &mut self.progress[thread.number];
        if self.mutex == UNLOCKED {
            self.mutex = if core::mem::take(&mut progress.has_waited) { CONTENDED } else { LOCKED };
            progress.spins = 0;
            return self.begin_step(thread.number);
        }
        progress.left_ns = SPIN_NS;
        progress.spins += 1;
        if self.mutex == LOCKED && progress.spins < MAX_SPINS {
            return;
        }
        (progress.spins, progress.has_waited) = (0, true);
        self.mutex = CONTENDED;
        self.waiters.push_back(thread.number);
        self.park(cpu, thread);
    }

    fn spawn(&mut self, cpu: usize, number: usize) {
        let thread = self.threads[number];
        self.begin_step(number);
        self.progress[number].ready_since = self.now;
        let request = self.cpus.start(self.machines[cpu].cpu, thread, None, || self.clock());
        self.request(cpu, request);
    }
}
