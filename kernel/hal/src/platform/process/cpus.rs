//! CPUs that are threads: waking and interrupting each other, and their timers.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use hermit_interface::machine::MAX_CPUS;
use hermit_interface::process::{Cpu, Cpus};
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
static DEADLINES: [AtomicU64; MAX_CPUS as usize] = [const { AtomicU64::new(NEVER) }; MAX_CPUS as usize];

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
    cpu.idle.store(0, SeqCst);
    cpu.raised.swap(0, SeqCst)
}

/// Raises a line on another CPU.
pub(super) fn raise(number: u32, line: u8) {
    let Some(cpu) = cpu(number) else { return };
    // Who has raised the first line also tells it.
    if cpu.raised.fetch_or(1 << line, SeqCst) != 0 {
        return;
    }
    if cpu.idle.swap(0, SeqCst) == 0 {
        interrupt(cpu);
    } else {
        linux::wake(&cpu.idle);
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
    cpu.idle.store(1, SeqCst);
    let mut is_over = false;
    if !woken() && cpu.raised.load(SeqCst) == 0 {
        let moment = deadline().load(Relaxed);
        let left = (moment != NEVER).then(|| moment.saturating_sub(clock::monotonic()));
        is_over = left == Some(0) || linux::wait(&cpu.idle, 1, left) == Wait::TimedOut;
    }
    interrupts::note(take_raised(local::number()));
    if is_over {
        deadline().store(NEVER, Relaxed);
        interrupts::note(1 << TIMER);
    }
}
