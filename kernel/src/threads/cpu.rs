//! State of a CPU: its run queue, its timers and its idle thread. Handles the timer interrupt, the reschedule
//! IPI and preemption.
//!
//! `hermit_sched` makes the scheduling decisions. It knows neither interrupts nor stacks; this module
//! connects it to the hardware. A CPU that starts calls [`adopt`], which makes the calling code the CPU's
//! idle thread. Then it calls [`idle`]. Each CPU has one hardware timer, which is set to the earlier of two
//! times: the end of the running thread's time slice, and the first deadline of the threads that sleep with
//! this CPU's timer. When a thread becomes ready for another CPU, that CPU gets a reschedule IPI.
//!
//! Functions that use the current CPU take a [`Masked`]: while interrupts are masked, the thread cannot be
//! preempted and moved to another CPU.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI64, AtomicU64};

use crossbeam_utils::atomic::AtomicCell;
use hermit_base::lock::Lock;
use hermit_hal::cpus::PerCpu;
use hermit_hal::interrupts::{self, Masked};
use hermit_hal::memory::{self, OutOfMemory};
use hermit_hal::sync::MaskedLock;
use hermit_hal::{clock, cpus, thread};
use hermit_interface::MAX_CPUS;
use hermit_sched::cpus::{Cpus, Reschedule};
use hermit_sched::thread::Thread as _;
use hermit_sched::timers::TimerHeap;

use super::thread::Thread;

#[cfg(feature = "fifo")]
type SelectedPolicy = hermit_sched::policy::Fifo<Thread>;
#[cfg(all(feature = "round-robin", not(feature = "fifo")))]
type SelectedPolicy = hermit_sched::policy::RoundRobin<Thread>;
#[cfg(not(any(feature = "fifo", feature = "round-robin")))]
type SelectedPolicy = hermit_sched::policy::Fair<Thread>;

/// A lock of the scheduler. It does not mask interrupts, because callers of the scheduler have already masked
/// them.
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

/// The scheduler's state of all CPUs.
pub(super) static SYSTEM: Cpus<Thread, SelectedPolicy, QueueLock<SelectedPolicy>> = Cpus::new();

/// Running CPUs, by number.
static CPUS: [AtomicCell<Option<&'static Cpu>>; MAX_CPUS] = [const { AtomicCell::new(None) }; MAX_CPUS];

/// Deadline of a timer that is not set.
const NEVER: u64 = u64::MAX;

/// A CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    pub(super) sched: hermit_sched::cpu::Cpu<Thread, SelectedPolicy, QueueLock<SelectedPolicy>>,
    /// Deadlines of sleeping threads that this CPU's timer wakes.
    pub(super) timers: MaskedLock<TimerHeap<Thread>>,
    pub(super) idle: &'static Thread,
    /// Time for which the hardware timer is set, or [`NEVER`].
    armed: AtomicU64,
    /// End of the running time slice, or [`NEVER`].
    slice_end: AtomicU64,
    /// Idle time in nanoseconds. While the CPU is idle, the time at which it became idle is subtracted, so
    /// the value is negative.
    idle_ns: AtomicI64,
}

/// The current CPU.
static HERE: PerCpu<Cpu> = PerCpu::new();

/// The current CPU.
#[inline]
pub(crate) fn here(masked: &Masked) -> &'static Cpu {
    HERE.get(masked).expect("a CPU is adopted before it runs threads")
}

/// Returns the current CPU, or `None` before [`adopt`].
#[inline]
pub(super) fn try_here(masked: &Masked) -> Option<&'static Cpu> {
    HERE.get(masked)
}

/// Returns the CPU with a number, if that CPU runs threads.
#[inline]
pub(crate) fn get(number: u32) -> Option<&'static Cpu> {
    CPUS.get(number as usize)?.load()
}

/// Makes the current CPU known to the scheduler. The calling code becomes its idle thread.
pub(super) fn adopt(masked: &Masked) -> Result<&'static Cpu, OutOfMemory> {
    let idle = Thread::allocate()?;
    idle.context.adopt_cpu(masked);
    let number = masked.cpu();
    idle.entity().assign_cpu(number, true);
    let cpu = memory::leak(Cpu {
        sched: hermit_sched::cpu::Cpu::new(number, idle, QueueLock::new(SelectedPolicy::default())),
        timers: MaskedLock::new(TimerHeap::new()),
        idle,
        armed: AtomicU64::new(NEVER),
        slice_end: AtomicU64::new(NEVER),
        idle_ns: AtomicI64::new(0),
    });
    let cpu: &'static Cpu = cpu.ok_or(OutOfMemory)?;
    CPUS[number as usize % MAX_CPUS].store(Some(cpu));
    HERE.set(masked, cpu);
    SYSTEM.add_cpu(&cpu.sched);
    Ok(cpu)
}

/// The idle loop: runs threads that become ready, and waits for interrupts while there are none.
pub(crate) fn idle(masked: &mut Masked) -> ! {
    let mut woken_at = None;
    loop {
        // An idle thread never leaves its CPU.
        let cpu = here(masked);
        match SYSTEM.pick_next_or_idle(&cpu.sched, clock::monotonic) {
            Some(next) => {
                if let Some(now) = woken_at.take() {
                    cpu.sched.stamp(now);
                }
                request_reschedule(masked, SYSTEM.reschedule_stealer(&cpu.sched));
                cpu.start_slice_if_needed(masked);
                thread::switch(masked, &next.context);
            }
            None => {
                cpu.add_idle(-clock::monotonic().cast_signed());
                // Interrupts have been masked since the run queue was found empty: a thread that becomes
                // ready now raises an interrupt, which ends the wait.
                interrupts::wait(masked);
                let now = clock::monotonic();
                cpu.add_idle(now.cast_signed());
                woken_at = Some(now);
                SYSTEM.leave_idle(cpu.sched.number());
            }
        }
    }
}

/// Returns the time for which a CPU was idle, in nanoseconds. For a CPU that does not run threads, this is
/// the time since the start of the machine.
pub(crate) fn idle_ns(number: u32) -> u64 {
    let idle_ns = get(number).map_or(-1, |cpu| cpu.idle_ns.load(Relaxed));
    // The clock is read after `idle_ns`, so that the sum is not negative.
    let now = clock::monotonic();
    u64::try_from(idle_ns).unwrap_or_else(|_| now.saturating_add_signed(idle_ns))
}

/// Number of CPUs that run threads.
pub(crate) fn count() -> u32 {
    SYSTEM.count()
}

/// Returns true if the current CPU runs its idle thread.
pub(crate) fn is_idle() -> bool {
    here(&Masked::new()).is_idle()
}

/// Handles an interrupt of the current CPU's timer.
pub(crate) fn timer_interrupt(masked: &Masked) {
    here(masked).timer_fired(masked);
}

/// Handles a reschedule IPI: another CPU has made a thread ready for this one.
pub(crate) fn reschedule_interrupt(masked: &Masked) {
    here(masked).check_ready(masked);
}

/// Switches to another thread if the current thread's time slice is over, or if a thread that should run
/// first is ready.
pub(crate) fn preempt(masked: &mut Masked) {
    let cpu = here(masked);
    if cpu.is_idle() {
        return;
    }
    let end = cpu.slice_end.load(Relaxed);
    let ended_at = if end == NEVER { None } else { Some(clock::monotonic()).filter(|&now| end <= now) };
    if ended_at.is_some() {
        cpu.slice_end.store(NEVER, Relaxed);
    }
    let is_over = ended_at.is_some() && !cpu.sched.end_trial();
    if is_over {
        request_reschedule(masked, SYSTEM.balance(&cpu.sched, clock::monotonic));
    }
    let next = cpu.sched.preempt(is_over, clock::monotonic);
    cpu.start_slice_if_needed(masked);
    request_reschedule(masked, SYSTEM.reschedule_stealer(&cpu.sched));
    if let Some(ended_at) = ended_at {
        cpu.sched.record_slice_cost(clock::monotonic() - ended_at);
    }
    if let Some(next) = next {
        thread::switch(masked, &next.context);
    }
}

/// Sends a reschedule IPI, or reschedules the current CPU, as the scheduler requests.
#[inline]
pub(super) fn request_reschedule(masked: &Masked, reschedule: Reschedule) {
    match reschedule {
        Reschedule::None => {}
        Reschedule::Cpu(number) if number == masked.cpu() => here(masked).check_ready(masked),
        Reschedule::Cpu(number) => cpus::send_reschedule(masked, number),
    }
}

/// Wakes a thread. This is the out-of-line version, for callers that need not be as fast as a futex.
#[inline(never)]
pub(super) fn wake(masked: &Masked, thread: &'static Thread) {
    wake_inline(masked, thread);
}

/// Wakes a thread. This is the inlined version of [`wake`].
#[inline(always)]
pub(super) fn wake_inline(masked: &Masked, thread: &'static Thread) {
    request_reschedule(masked, SYSTEM.wake_from(|| &here(masked).sched, thread, clock::monotonic));
}

impl Cpu {
    /// Returns true if the CPU runs its idle thread.
    pub(super) fn is_idle(&self) -> bool {
        self.sched.current().is(self.idle)
    }

    /// Adds to the idle time. Only this CPU changes it.
    fn add_idle(&self, time_ns: i64) {
        self.idle_ns.store(self.idle_ns.load(Relaxed) + time_ns, Relaxed);
    }

    /// Returns the thread to switch to. The current thread is parked or has ended.
    #[inline]
    pub(super) fn next(&self) -> &'static Thread {
        self.sched.pick_next(clock::monotonic).unwrap_or_else(|| self.sched.switch_to_idle(self.idle))
    }

    /// Called after a thread has become ready on this CPU. Starts a time slice, or preempts the current
    /// thread.
    #[cold]
    fn check_ready(&self, masked: &Masked) {
        // An idle CPU looks at its run queue after the interrupt.
        if self.is_idle() {
            return;
        }
        if self.sched.needs_slice() {
            self.start_slice(masked);
            request_reschedule(masked, SYSTEM.reschedule_stealer(&self.sched));
        }
        interrupts::reschedule(masked);
    }

    /// Starts a time slice if a thread waits for the CPU and no time slice has begun.
    #[inline]
    fn start_slice_if_needed(&self, masked: &Masked) {
        if self.sched.needs_slice() && !self.is_idle() {
            self.start_slice(masked);
        }
    }

    #[cold]
    fn start_slice(&self, masked: &Masked) {
        let Some(slice) = self.sched.start_slice() else { return };
        let end = clock::monotonic() + slice;
        self.slice_end.store(end, Relaxed);
        self.arm_timer(masked, end);
    }

    /// Sets the hardware timer to `deadline`, unless it is set to an earlier time.
    pub(super) fn arm_timer(&self, masked: &Masked, deadline: u64) {
        if deadline < self.armed.load(Relaxed) {
            self.armed.store(deadline, Relaxed);
            clock::set_timer(masked, deadline);
        }
    }

    /// Wakes threads whose deadlines have passed, ends the time slice if it is over, and sets the timer
    /// again. Wakes only one batch of threads. If more threads are due, sets the timer to expire at once, so
    /// that other pending interrupts are handled before the next batch.
    fn timer_fired(&self, masked: &Masked) {
        self.armed.store(NEVER, Relaxed);
        let now = clock::monotonic();
        let due = self.timers.with(masked, |timers| timers.expire(now));
        if !due.is_empty() && !self.is_idle() {
            self.sched.observe_current(|| now);
        }
        for thread in due {
            request_reschedule(masked, SYSTEM.wake(thread, clock::monotonic));
        }
        if self.slice_end.load(Relaxed) <= now {
            if self.sched.try_end_slice(self.is_idle(), || now) {
                self.slice_end.store(NEVER, Relaxed);
            } else {
                interrupts::reschedule(masked);
            }
        }
        let next = self.timers.with(masked, |timers| timers.next_deadline()).unwrap_or(NEVER);
        // If the time slice is over, the preemption of the thread ends it and starts the next one.
        let slice_end = Some(self.slice_end.load(Relaxed)).filter(|&end| end > now).unwrap_or(NEVER);
        let deadline = next.min(slice_end);
        if deadline != NEVER {
            self.arm_timer(masked, deadline);
        }
    }
}
