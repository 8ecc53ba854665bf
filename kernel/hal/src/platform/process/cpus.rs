//! CPUs as threads of Linux: raised lines, waiting and waking, and timers.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use hermit_interface::MAX_CPUS;
use hermit_interface::process::{BUSY, POLLING, SharedCpu, SharedCpus, WAITING};

use super::linux::{self, Wait};
use crate::arch::{local, startup};
use crate::clock;
use crate::interrupts::{self, DEFERRED_BIT, TIMER};
use crate::once::Once;

/// The page that the CPUs share with uhyve.
static CPUS: Once<&'static SharedCpus> = Once::new();

static COUNT: Once<u32> = Once::new();

/// Value for no deadline. It is 0, so that [`DEADLINES`] takes no space in the image's file.
const NEVER: u64 = 0;

/// Deadline of each CPU's timer while Linux's timer is not set for it yet. Only the CPU itself uses it.
static DEADLINES: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(NEVER) }; MAX_CPUS];

/// Halt-polling interval of each CPU, in nanoseconds: how long an idle CPU polls for interrupts before it
/// sleeps. Only the CPU itself uses it.
static POLL_INTERVALS: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// Shortest halt-polling interval except for 0, in nanoseconds.
const MIN_POLL_NS: u64 = 5_000;
/// Longest halt-polling interval, in nanoseconds.
const MAX_POLL_NS: u64 = 40_000;

/// Sets the page of the CPUs.
pub(super) fn init(cpus: &'static SharedCpus) {
    CPUS.call_once(|| cpus);
}

/// Sets the number of CPUs; 0 means that it is unknown.
pub(super) fn set_count(count: u32) {
    COUNT.call_once(|| count.max(1));
}

/// Number of CPUs.
pub(super) fn count() -> u32 {
    COUNT.get().copied().unwrap_or(1)
}

fn cpu(number: u32) -> Option<&'static SharedCpu> {
    CPUS.get()?.get(number as usize)
}

/// Removes and returns the lines that were raised on this CPU, one bit each. Marks the CPU as busy, so that
/// it checks for lines again before it sleeps.
pub(super) fn take_raised(number: u32) -> u32 {
    let Some(cpu) = cpu(number) else { return 0 };
    cpu.idle.store(BUSY, SeqCst);
    cpu.raised.swap(0, SeqCst)
}

/// Raises a line on another CPU, and wakes or interrupts that CPU.
pub(super) fn raise(number: u32, line: u8) {
    let Some(cpu) = cpu(number) else { return };
    // Only the first line notifies the CPU. It takes all raised lines at the same time.
    if cpu.raised.fetch_or(1 << line, SeqCst) != 0 {
        return;
    }
    match cpu.idle.swap(BUSY, SeqCst) {
        BUSY => interrupt(cpu),
        POLLING => {}
        _ => linux::wake(&cpu.idle),
    }
}

fn interrupt(cpu: &SharedCpu) {
    // The identifier of the process is that of its first thread.
    let process = self::cpu(0).map_or(0, |first| first.thread.load(Relaxed));
    linux::interrupt(process, cpu.thread.load(Relaxed));
}

/// Interrupts all other CPUs that have been started, whether or not they mask interrupts.
pub(super) fn interrupt_others() {
    let others = |(number, cpu): &(u32, &SharedCpu)| {
        *number != local::number() && (*number == 0 || cpu.started.load(Relaxed) != 0)
    };
    let all = (0..).zip(CPUS.get().into_iter().flat_map(|cpus| cpus.iter()));
    all.filter(others).for_each(|(_, cpu)| interrupt(cpu));
}

/// Starts the CPUs that have been prepared.
pub(super) fn start_secondary() {
    for (number, state) in (1..).zip(startup::entry_states()) {
        let Some(cpu) = cpu(number) else { return };
        cpu.entry.store(state.entry, Relaxed);
        cpu.stack.store(state.stack, Relaxed);
        cpu.argument.store(state.argument, Relaxed);
        cpu.started.store(1, Release);
        linux::wake(&cpu.started);
    }
}

fn deadline() -> &'static AtomicU64 {
    &DEADLINES[local::number() as usize % DEADLINES.len()]
}

fn poll_interval() -> &'static AtomicU64 {
    &POLL_INTERVALS[local::number() as usize % POLL_INTERVALS.len()]
}

/// Sets this CPU's timer. Linux's timer is set only when a thread is about to run ([`arm_timer`]): an idle
/// CPU waits no longer than until the deadline, and needs no signal.
pub(super) fn set_timer(timeout_ns: u64) {
    deadline().store(clock::monotonic().saturating_add(timeout_ns).max(1), Relaxed);
    interrupts::set_pending(DEFERRED_BIT);
}

/// Sets Linux's timer if [`set_timer`] has deferred it.
pub(super) fn arm_timer() {
    let end = deadline().swap(NEVER, Relaxed);
    if end != NEVER
        && let Some(cpu) = cpu(local::number())
    {
        let timeout_ns = end.saturating_sub(clock::monotonic()).max(1);
        linux::set_timer(cpu.timer.load(Relaxed), timeout_ns);
    }
}

/// Waits for an interrupt or the timer's deadline, unless `woken` returns true. A deferred timer stays
/// deferred, since no thread other than the idle thread runs.
pub(super) fn wait_unless(woken: &dyn Fn() -> bool) {
    let Some(cpu) = cpu(local::number()) else { return };
    let is_woken = || woken() || cpu.raised.load(SeqCst) != 0;
    let start = clock::monotonic();
    let end = deadline().load(Relaxed);
    cpu.idle.store(POLLING, SeqCst);
    let interval = poll_interval();
    let poll_end = start.saturating_add(interval.load(Relaxed));
    let poll_end = if end == NEVER { poll_end } else { poll_end.min(end) };
    while !is_woken() && clock::monotonic() < poll_end {
        core::hint::spin_loop();
    }
    let sleeps = cpu.idle.compare_exchange(POLLING, WAITING, SeqCst, SeqCst).is_ok();
    let mut has_expired = false;
    if sleeps && !is_woken() {
        let timeout_ns = (end != NEVER).then(|| end.saturating_sub(clock::monotonic()));
        has_expired = timeout_ns == Some(0) || linux::wait(&cpu.idle, WAITING, timeout_ns) == Wait::TimedOut;
        let slept_ns = clock::monotonic().saturating_sub(start);
        interval.store(next_poll_interval(interval.load(Relaxed), slept_ns, has_expired), Relaxed);
    }
    interrupts::set_pending(take_raised(local::number()));
    if has_expired {
        deadline().store(NEVER, Relaxed);
        interrupts::set_pending(1 << TIMER);
    }
}

/// The next halt-polling interval of a CPU that has polled for `interval` and then slept all the same
/// (compare `halt_poll_ns` of KVM). Waking a thread costs several microseconds, so a CPU that was woken soon
/// polls longer. A CPU that slept long stops polling at once and leaves the host's processor to others.
const fn next_poll_interval(interval: u64, slept_ns: u64, has_expired: bool) -> u64 {
    if has_expired || slept_ns > MAX_POLL_NS {
        0
    } else if interval == 0 {
        MIN_POLL_NS
    } else if interval < MAX_POLL_NS / 2 {
        2 * interval
    } else {
        MAX_POLL_NS
    }
}
