//! One CPU: its queue of ready threads, its timers, its idle thread; and what its interrupts do.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crossbeam_utils::atomic::AtomicCell;
use hermit_hal::cpus::PerCpu;
use hermit_hal::interrupts::{self, Handlers, KICK, Masked, TIMER};
use hermit_hal::memory::{self, OutOfMemory};
use hermit_hal::sync::MaskedLock;
use hermit_hal::{clock, cpus, thread};
use hermit_interface::MAX_CPUS;
use hermit_sched::cpu::{Cpus, Told};
use hermit_sched::policy::Policy;
use hermit_sched::sync::Lock;
use hermit_sched::timers::Timers;

use super::Thread;
use super::schedule::same;
use crate::{descriptors, devices};

#[cfg(feature = "fair")]
type ThePolicy = hermit_sched::policy::Fair<Thread>;
#[cfg(all(feature = "fifo", not(feature = "fair")))]
type ThePolicy = hermit_sched::policy::Fifo<Thread>;
#[cfg(not(any(feature = "fair", feature = "fifo")))]
type ThePolicy = hermit_sched::policy::RoundRobin<Thread>;

/// A lock of the scheduler, which is only called with interrupts masked.
#[derive(Debug)]
pub(super) struct QueueLock<T>(MaskedLock<T>);

impl<T> QueueLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(MaskedLock::new(value))
    }
}

impl<T: Send> Lock<T> for QueueLock<T> {
    #[inline]
    fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        self.0.with_unchecked_mask(action)
    }
}

/// All CPUs as the scheduler sees them.
pub(super) static SYSTEM: Cpus<Thread, ThePolicy, QueueLock<ThePolicy>> = Cpus::new();

/// All CPUs that run, by number.
static CPUS: [AtomicCell<Option<&'static Cpu>>; MAX_CPUS] = [const { AtomicCell::new(None) }; MAX_CPUS];

/// No moment.
const NEVER: u64 = u64::MAX;

/// A CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    pub(super) sched: hermit_sched::cpu::Cpu<Thread, ThePolicy, QueueLock<ThePolicy>>,
    /// Those who are to be woken by this CPU.
    pub(super) timers: MaskedLock<Timers<Thread>>,
    pub(super) idle: &'static Thread,
    /// The moment for which the hardware's timer is set.
    armed: AtomicU64,
    /// When the slice is over that is running.
    slice_end: AtomicU64,
}

/// The CPU that runs this.
static HERE: PerCpu<Cpu> = PerCpu::new();

/// The CPU that runs this.
#[inline]
pub(crate) fn here(masked: &Masked) -> &'static Cpu {
    HERE.get(masked).expect("a CPU says who it is before it runs threads")
}

/// As [`here`], but there may be no threads yet.
pub(super) fn try_here(masked: &Masked) -> Option<&'static Cpu> {
    HERE.get(masked)
}

/// The CPU of this number, if it runs.
#[inline]
pub(super) fn get(number: u32) -> Option<&'static Cpu> {
    CPUS.get(number as usize)?.load()
}

/// Puts the CPU that runs this into the table. What it does now becomes its idle thread.
pub(super) fn adopt(masked: &Masked) -> Result<&'static Cpu, OutOfMemory> {
    let idle = Thread::allocate()?;
    idle.context.adopt_cpu(masked);
    let number = masked.cpu();
    let cpu = memory::leak(Cpu {
        sched: hermit_sched::cpu::Cpu::new(number, idle, QueueLock::new(ThePolicy::default())),
        timers: MaskedLock::new(Timers::new()),
        idle,
        armed: AtomicU64::new(NEVER),
        slice_end: AtomicU64::new(NEVER),
    });
    let cpu: &'static Cpu = cpu.ok_or(OutOfMemory)?;
    CPUS[number as usize % MAX_CPUS].store(Some(cpu));
    HERE.set(masked, cpu);
    SYSTEM.add(&cpu.sched);
    Ok(cpu)
}

/// What a CPU does when it has nothing to do: runs whatever becomes ready, for ever.
pub(super) fn idle(masked: &Masked) -> ! {
    loop {
        // An idle thread never leaves its CPU.
        let cpu = here(masked);
        match SYSTEM.next_or_idle(&cpu.sched, clock::monotonic) {
            Some(next) => {
                cpu.start_slice_if_needed(masked);
                thread::switch(masked, &next.context);
            }
            None => {
                interrupts::wait(masked);
                SYSTEM.leave_idle(cpu.sched.number());
            }
        }
    }
}

/// Whether this CPU has nothing to do.
pub(crate) fn is_idle() -> bool {
    here(&Masked::new()).is_idle()
}

/// Handles interrupts from here on.
pub(super) fn handle_interrupts() {
    interrupts::set_handlers(Handlers { raised, preempt });
}

fn raised(line: u8, masked: &Masked) {
    match line {
        TIMER => here(masked).timer_fired(masked),
        KICK => here(masked).attend(masked),
        _ if devices::interrupt(line) => {}
        _ => descriptors::input_arrived(),
    }
}

fn preempt(masked: &Masked) {
    let cpu = here(masked);
    if cpu.is_idle() {
        return;
    }
    let end = cpu.slice_end.load(Relaxed);
    let over = end != NEVER && end <= clock::monotonic();
    if over {
        cpu.end_slice();
    }
    let next = cpu.sched.preempt(over, clock::monotonic);
    cpu.start_slice_if_needed(masked);
    if let Some(next) = next {
        tell(masked, SYSTEM.offer(&cpu.sched));
        thread::switch(masked, &next.context);
    }
}

/// Does what has to be done because a thread is ready.
#[inline]
pub(super) fn tell(masked: &Masked, told: Told) {
    match told {
        Told::Nobody => {}
        Told::Cpu(number) if number == masked.cpu() => here(masked).attend(masked),
        Told::Cpu(number) => cpus::kick(masked, number),
    }
}

impl Cpu {
    pub(super) fn is_idle(&self) -> bool {
        same(self.sched.current(), self.idle)
    }

    /// The current thread cannot go on: whom to switch to instead.
    #[inline]
    pub(super) fn next(&self) -> &'static Thread {
        self.sched.next(clock::monotonic).unwrap_or_else(|| self.sched.run_idle(self.idle))
    }

    /// A thread has become ready here.
    #[cold]
    fn attend(&self, masked: &Masked) {
        self.start_slice_if_needed(masked);
        if !self.is_idle() {
            interrupts::reschedule(masked);
        }
    }

    #[inline]
    pub(super) fn start_slice_if_needed(&self, masked: &Masked) {
        if self.sched.needs_slice() && !self.is_idle() {
            self.start_slice(masked);
        }
    }

    #[cold]
    fn start_slice(&self, masked: &Masked) {
        let Some(slice) = ThePolicy::SLICE else { return };
        let end = clock::monotonic() + slice;
        self.sched.set_slice(true);
        self.slice_end.store(end, Relaxed);
        self.arm(masked, end);
        tell(masked, SYSTEM.offer(&self.sched));
    }

    fn end_slice(&self) {
        self.sched.set_slice(false);
        self.slice_end.store(NEVER, Relaxed);
    }

    /// Sets the timer, unless it fires before that anyway.
    pub(super) fn arm(&self, masked: &Masked, moment: u64) {
        if moment < self.armed.load(Relaxed) {
            self.armed.store(moment, Relaxed);
            clock::set_timer(masked, moment);
        }
    }

    fn timer_fired(&self, masked: &Masked) {
        self.armed.store(NEVER, Relaxed);
        let now = clock::monotonic();
        while let Some(due) = self.timers.with(masked, |timers| timers.pop_due(now)) {
            tell(masked, SYSTEM.wake(due));
        }
        if self.slice_end.load(Relaxed) <= now {
            if self.is_idle() || self.sched.ready_count() == 0 {
                self.end_slice();
            } else {
                interrupts::reschedule(masked);
            }
        }
        let next = self.timers.with(masked, |timers| timers.next_deadline()).unwrap_or(NEVER);
        // A slice that is over ends when the thread is preempted.
        let slice_end = Some(self.slice_end.load(Relaxed)).filter(|&end| end > now).unwrap_or(NEVER);
        let moment = next.min(slice_end);
        if moment != NEVER {
            self.arm(masked, moment);
        }
    }
}
