//! Yielding, sleeping and waking threads.

use core::sync::atomic::Ordering::Relaxed;

use hermit_hal::interrupts::Masked;
use hermit_hal::{clock, thread};
use hermit_sched::thread::Thread as _;
use hermit_sched::timers;

use super::cpu::{self, Cpu};
use super::thread::Thread;

/// The current thread.
#[inline]
pub(crate) fn current() -> &'static Thread {
    cpu::here(&Masked::new()).sched.current()
}

/// Returns the current thread, or `None` if this CPU does not run threads yet.
pub(crate) fn try_current() -> Option<&'static Thread> {
    let masked = Masked::new();
    cpu::try_here(&masked).map(|cpu| cpu.sched.current())
}

/// Yields to other ready threads, if there are any. `thread` is the current thread and `cpu` the current CPU.
#[inline(never)]
pub(super) fn yield_masked(mut masked: Masked, cpu: &'static Cpu, thread: &'static Thread) {
    if let Some(next) = cpu.sched.yield_now(thread, clock::monotonic) {
        thread::switch(&mut masked, &next.context);
    }
}

/// Counts a sleep of the current thread that is not a [`wait`]: see
/// [`Entity::poll_several`](hermit_sched::thread::Entity::poll_several). Futex waits of programs need not be
/// counted, since they never happen during a poll.
pub(crate) fn count_sleep() {
    current().entity().count_sleep();
}

/// Sleeps until a [`wake`] of the current thread, or until `deadline`, a time of the monotonic clock. Returns
/// at once if the thread was woken since it last slept. May return spuriously.
pub(crate) fn wait(deadline: Option<u64>) {
    let mut masked = Masked::new();
    let thread = cpu::here(&masked).sched.current();
    thread.entity().count_sleep();
    wait_masked(&mut masked, thread, deadline);
}

/// Does [`wait`] without a deadline. `thread` is the current thread and `cpu` the current CPU. When the
/// function returns, the thread may be on another CPU.
#[inline(always)]
pub(super) fn park(masked: &mut Masked, cpu: &'static Cpu, thread: &'static Thread) {
    if thread.entity().park() {
        switch_from(masked, cpu, thread);
    }
}

/// Does [`wait`] for the current thread, `thread`. When the function returns, the thread may be on another
/// CPU.
#[inline]
pub(super) fn wait_masked(masked: &mut Masked, thread: &'static Thread, deadline: Option<u64>) {
    if !thread.entity().park() {
        return;
    }
    let cpu = cpu::here(masked);
    let Some(deadline) = deadline else { return switch_away(masked, cpu, thread) };
    add_timer(masked, cpu, thread, deadline);
    switch_away(masked, cpu, thread);
    if timers::is_queued(thread) {
        remove_timer(masked, thread);
    }
}

/// Does [`switch_from`] out of line.
#[inline(never)]
fn switch_away(masked: &mut Masked, cpu: &'static Cpu, thread: &'static Thread) {
    switch_from(masked, cpu, thread);
}

/// Switches from `thread`, which is parked, to the next ready thread. Returns when `thread` runs again.
#[inline(always)]
fn switch_from(masked: &mut Masked, cpu: &'static Cpu, thread: &'static Thread) {
    let next = cpu.next();
    // If the thread was woken after it was parked, the next thread may be the thread itself.
    if !next.is(thread) {
        thread::switch(masked, &next.context);
    }
}

fn add_timer(masked: &Masked, cpu: &'static Cpu, thread: &'static Thread, deadline: u64) {
    thread.timer_cpu.store(cpu.sched.number(), Relaxed);
    let is_first = cpu.timers.with(masked, |timers| timers.insert(thread, deadline));
    if is_first {
        cpu.arm_timer(masked, deadline);
    }
}

fn remove_timer(masked: &Masked, thread: &'static Thread) {
    if let Some(cpu) = cpu::get(thread.timer_cpu.load(Relaxed)) {
        cpu.timers.with(masked, |timers| timers.remove(thread));
    }
}

/// Wakes a thread.
pub(crate) fn wake(thread: &'static Thread) {
    let masked = Masked::new();
    cpu::wake(&masked, thread);
}

/// Sleeps until `deadline`, a time of the monotonic clock.
pub(crate) fn sleep_until(deadline: u64) {
    while clock::monotonic() < deadline {
        wait(Some(deadline));
    }
}
