//! Yielding, waiting, waking.

use core::sync::atomic::Ordering::Relaxed;

use hermit_hal::interrupts::Masked;
use hermit_hal::{clock, thread};
use hermit_sched::thread::Thread as _;
use hermit_sched::timers;

use super::cpu::{self, Cpu, SYSTEM};
use super::{Thread, announced};

/// Whether two are the same thread.
#[inline]
pub(super) fn same(one: &'static Thread, other: &'static Thread) -> bool {
    core::ptr::eq(one, other)
}

/// The thread that runs this.
#[inline]
pub(crate) fn current() -> &'static Thread {
    cpu::here(&Masked::new()).sched.current()
}

/// As [`current`], but there may be no threads yet.
pub(crate) fn try_current() -> Option<&'static Thread> {
    let masked = Masked::new();
    cpu::try_here(&masked).map(|cpu| cpu.sched.current())
}

/// Lets others go first, or waits if the thread has announced that.
#[inline]
pub(crate) fn yield_now() {
    let masked = Masked::new();
    let cpu = cpu::here(&masked);
    let current = cpu.sched.current();
    if current.announced.block.load(Relaxed) {
        drop(masked);
        return announced::wait_now();
    }
    if let Some(next) = cpu.sched.yield_now(current, clock::monotonic) {
        thread::switch(&masked, &next.context);
    }
}

/// Waits until somebody wakes the thread, or until a moment of the monotonic clock if there is one; not at all if
/// somebody has woken it since it last waited. May return for no reason.
pub(crate) fn wait(deadline: Option<u64>) {
    let masked = Masked::new();
    wait_masked(&masked, cpu::here(&masked).sched.current(), deadline);
}

/// As [`wait`], for the current thread. Afterwards it may be on another CPU.
#[inline]
pub(super) fn wait_masked(masked: &Masked, thread: &'static Thread, deadline: Option<u64>) {
    if !thread.entity().park() {
        return;
    }
    let cpu = cpu::here(masked);
    let Some(deadline) = deadline else { return leave(masked, cpu, thread) };
    add_timer(masked, cpu, thread, deadline);
    leave(masked, cpu, thread);
    if timers::is_queued(thread) {
        remove_timer(masked, thread);
    }
}

/// Goes on with another thread; returns when this one is ready and its turn has come.
#[inline]
fn leave(masked: &Masked, cpu: &'static Cpu, thread: &'static Thread) {
    let next = cpu.next();
    // It may have been woken in the meantime, and be the next itself.
    if !same(next, thread) {
        thread::switch(masked, &next.context);
    }
}

fn add_timer(masked: &Masked, cpu: &'static Cpu, thread: &'static Thread, deadline: u64) {
    thread.timer_cpu.store(cpu.sched.number(), Relaxed);
    let first = cpu.timers.with(masked, |timers| timers.insert(thread, deadline));
    if first {
        cpu.arm(masked, deadline);
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
    cpu::tell(&masked, SYSTEM.wake(thread));
}

/// Waits until a moment of the monotonic clock.
pub(crate) fn sleep_until(deadline: u64) {
    while clock::monotonic() < deadline {
        wait(Some(deadline));
    }
}
