//! Futexes: waiting for a value in memory to change.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use hermit_hal::clock;
use hermit_hal::interrupts::Masked;
use hermit_interface::Errno;
use hermit_sched::futex::{BUCKETS, Bucket, FutexTable, WakeUp};
use hermit_sched::thread::Thread as _;

use super::cpu::{self, QueueLock};
use super::schedule;
use super::thread::Thread;

static TABLE: FutexTable<QueueLock<Bucket<Thread>>> =
    FutexTable::new([const { QueueLock::new(Bucket::new()) }; BUCKETS]);

fn address(futex: &AtomicU32) -> u64 {
    core::ptr::from_ref(futex).addr() as u64
}

/// Waits if the futex has the value `expected`. The wait ends with a [`wake_one`] of the futex's address, or
/// at `deadline`, a time of the monotonic clock.
///
/// # Errors
///
/// `EAGAIN` if the futex has another value, `ETIMEDOUT`.
pub(crate) fn wait(futex: &AtomicU32, expected: u32, deadline: Option<u64>) -> Result<(), Errno> {
    match deadline {
        Some(deadline) => wait_until(futex, expected, deadline),
        None => wait_unlimited(futex, expected),
    }
}

/// Does [`wait`] without a deadline. It is inlined, because most waits of programs have no deadline.
#[inline(always)]
pub(crate) fn wait_unlimited(futex: &AtomicU32, expected: u32) -> Result<(), Errno> {
    let mut masked = Masked::new();
    let cpu = cpu::here(&masked);
    let thread = cpu.sched.current();
    if !TABLE.wait(address(futex), thread, || futex.load(SeqCst) == expected) {
        return has_changed(masked);
    }
    schedule::park(&mut masked, cpu, thread);
    if thread.entity().is_waiting() {
        wait_again(&mut masked, thread);
    }
    Ok(())
}

/// Returns the result of a wait for a futex that already has another value.
#[cold]
#[inline(never)]
fn has_changed(_masked: Masked) -> Result<(), Errno> {
    Err(Errno::EAGAIN)
}

/// Sleeps again until the current thread, `thread`, is no longer in a futex queue. Called after a sleep that
/// ended too early.
#[cold]
#[inline(never)]
fn wait_again(masked: &mut Masked, thread: &'static Thread) {
    while thread.entity().is_waiting() {
        schedule::wait_masked(masked, thread, None);
    }
}

/// Does [`wait`] with a deadline.
#[inline(never)]
pub(crate) fn wait_until(futex: &AtomicU32, expected: u32, deadline: u64) -> Result<(), Errno> {
    let address = address(futex);
    let mut masked = Masked::new();
    let thread = cpu::here(&masked).sched.current();
    if !TABLE.wait(address, thread, || futex.load(SeqCst) == expected) {
        return Err(Errno::EAGAIN);
    }
    loop {
        schedule::wait_masked(&mut masked, thread, Some(deadline));
        if !thread.entity().is_waiting() {
            return Ok(());
        }
        if deadline <= clock::monotonic() {
            return if TABLE.cancel(address, thread) { Err(Errno::ETIMEDOUT) } else { Ok(()) };
        }
    }
}

/// Wakes the first thread that waits for an address. Returns the number of woken threads, 0 or 1. The call of
/// the ABI returns the same number, so it can end with a jump to this function.
#[inline(never)]
pub(crate) fn wake_one(address: u64) -> i32 {
    let masked = Masked::new();
    TABLE.wake_one(address, |thread| cpu::wake_inline(&masked, thread)).into()
}

/// Wakes at most `count` threads that wait for an address, in batches. Returns the number of woken threads.
/// Interrupts are unmasked between two batches, so the caller may be preempted there.
#[inline(never)]
pub(crate) fn wake_many(address: u64, count: usize) -> usize {
    let mut wake_up = WakeUp::new(address, count);
    loop {
        let masked = Masked::new();
        if !TABLE.wake_batch(&mut wake_up, |thread| cpu::wake(&masked, thread)) {
            return wake_up.woken();
        }
    }
}

/// Wakes all threads that wait for a futex.
pub(crate) fn wake_all(futex: &AtomicU32) {
    wake_many(address(futex), usize::MAX);
}

/// Wakes the first thread that waits for a futex. Returns true if other threads may still wait for it.
#[inline(never)]
pub(crate) fn wake_next(futex: &AtomicU32) -> bool {
    let masked = Masked::new();
    TABLE.wake_next(address(futex), |thread| cpu::wake_inline(&masked, thread))
}
