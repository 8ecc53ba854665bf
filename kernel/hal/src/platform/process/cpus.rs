//! CPUs that are threads: waking and interrupting each other, and their timers.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use hermit_interface::MAX_CPUS;
use hermit_interface::process::{BUSY, Cpu, Cpus, LOOKING, WAITING};
use spin::Once;

use super::linux::{self, Wait};
use crate::arch::{local, startup};
use crate::clock;
use crate::interrupts::{self, DEFERRED_BIT, TIMER};

/// The page of the CPUs.
static CPUS: Once<&'static Cpus> = Once::new();

/// No moment.
const NEVER: u64 = u64::MAX;

/// When the timer of each CPU is to expire for which Linux has not been asked yet. Only its CPU uses it.
static DEADLINES: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(NEVER) }; MAX_CPUS];

/// How long, in nanoseconds, a CPU with nothing to do looks for something before it sleeps; each CPU's own.
static LOOKING_TIMES: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// The shortest and the longest of those times, but for none.
const LEAST_LOOKING: u64 = 5_000;
const MOST_LOOKING: u64 = 40_000;

/// Says where the CPUs are.
pub(super) fn init(cpus: &'static Cpus) {
    CPUS.call_once(|| cpus);
}

fn cpu(number: u32) -> Option<&'static Cpu> {
    CPUS.get()?.get(number as usize)
}

/// The lines that were raised on this CPU, a bit each; they are not any more. It does not go to sleep before it has looked
/// again.
pub(super) fn take_raised(number: u32) -> u32 {
    let Some(cpu) = cpu(number) else { return 0 };
    cpu.idle.store(BUSY, SeqCst);
    cpu.raised.swap(0, SeqCst)
}

/// Raises a line on another CPU.
pub(super) fn raise(number: u32, line: u8) {
    let Some(cpu) = cpu(number) else { return };
    // Who has raised the first line also tells it.
    if cpu.raised.fetch_or(1 << line, SeqCst) != 0 {
        return;
    }
    match cpu.idle.swap(BUSY, SeqCst) {
        BUSY => interrupt(cpu),
        LOOKING => {}
        _ => linux::wake(&cpu.idle),
    }
}

fn interrupt(cpu: &Cpu) {
    // The identifier of a process is that of its first thread.
    let process = self::cpu(0).map_or(0, |first| first.thread.load(Relaxed));
    linux::interrupt(process, cpu.thread.load(Relaxed));
}

/// Interrupts all other CPUs that have been started, whatever they do.
pub(super) fn interrupt_others() {
    let others = |(number, cpu): &(u32, &Cpu)| {
        *number != local::number() && (*number == 0 || cpu.started.load(Relaxed) != 0)
    };
    let all = (0..).zip(CPUS.get().into_iter().flat_map(|cpus| cpus.iter()));
    all.filter(others).for_each(|(_, cpu)| interrupt(cpu));
}

/// Starts all CPUs but the first.
pub(super) fn start_others(count: u32, main: fn(u32) -> !) {
    for (number, beginning) in (1..).zip(startup::prepare_threads(count, main)) {
        let Some(cpu) = cpu(number) else { return };
        cpu.entry.store(beginning.entry, Relaxed);
        cpu.stack.store(beginning.stack, Relaxed);
        cpu.argument.store(beginning.argument, Relaxed);
        cpu.started.store(1, Release);
        linux::wake(&cpu.started);
    }
}

fn deadline() -> &'static AtomicU64 {
    &DEADLINES[local::number() as usize % DEADLINES.len()]
}

fn looking_time() -> &'static AtomicU64 {
    &LOOKING_TIMES[local::number() as usize % LOOKING_TIMES.len()]
}

/// Sets this CPU's timer. Linux is asked when a thread is about to run, for a CPU that has nothing to do waits only so
/// long.
pub(super) fn set_timer(nanoseconds: u64) {
    deadline().store(clock::monotonic().saturating_add(nanoseconds), Relaxed);
    interrupts::note(DEFERRED_BIT);
}

/// Asks Linux for what [`set_timer`] has put off.
pub(super) fn arm_timer() {
    let moment = deadline().swap(NEVER, Relaxed);
    if moment != NEVER
        && let Some(cpu) = cpu(local::number())
    {
        let left = moment.saturating_sub(clock::monotonic()).max(1);
        linux::set_timer(cpu.timer.load(Relaxed), left);
    }
}

/// Waits for an interrupt, or until the timer expires. What [`set_timer`] has put off stays so: nobody but the idle thread
/// has run.
pub(super) fn wait_unless(woken: &dyn Fn() -> bool) {
    let Some(cpu) = cpu(local::number()) else { return };
    let is_told = || woken() || cpu.raised.load(SeqCst) != 0;
    let start = clock::monotonic();
    let end = deadline().load(Relaxed);
    cpu.idle.store(LOOKING, SeqCst);
    let look = looking_time();
    let looked_until = end.min(start.saturating_add(look.load(Relaxed)));
    while !is_told() && clock::monotonic() < looked_until {
        core::hint::spin_loop();
    }
    let sleeps = cpu.idle.compare_exchange(LOOKING, WAITING, SeqCst, SeqCst).is_ok();
    let mut is_over = false;
    if sleeps && !is_told() {
        let left = (end != NEVER).then(|| end.saturating_sub(clock::monotonic()));
        is_over = left == Some(0) || linux::wait(&cpu.idle, WAITING, left) == Wait::TimedOut;
        let slept = clock::monotonic().saturating_sub(start);
        look.store(next_looking_time(look.load(Relaxed), slept, is_over), Relaxed);
    }
    interrupts::note(take_raised(local::number()));
    if is_over {
        deadline().store(NEVER, Relaxed);
        interrupts::note(1 << TIMER);
    }
}

/// How long to look next time, when a CPU has slept so long in spite of having looked. Waking up costs several microseconds; so
/// whoever is woken soon had better not sleep. A CPU that was not stays off the host's processor at once.
const fn next_looking_time(look: u64, slept: u64, is_over: bool) -> u64 {
    if is_over || slept > MOST_LOOKING {
        0
    } else if look == 0 {
        LEAST_LOOKING
    } else if look < MOST_LOOKING / 2 {
        2 * look
    } else {
        MOST_LOOKING
    }
}
