//! Futexes: waiting for a value in memory to change.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use hermit_hal::clock;
use hermit_hal::interrupts::Masked;
use hermit_interface::Errno;
use hermit_sched::futex::{BUCKETS, Bucket, FutexTable, WakeUp};
use hermit_sched::thread::Thread as _;

use super::cpu::{self, QueueLock, SYSTEM};
use super::schedule;
use super::thread::Thread;

static TABLE: FutexTable<QueueLock<Bucket<Thread>>> =
    FutexTable::new([const { QueueLock::new(Bucket::new()) }; BUCKETS]);

fn address(futex: &AtomicU32) -> u64 {
    core::ptr::from_ref(futex).addr() as u64
}

/// Waits while the futex has the value `expected`, until a [`wake`] of its address or until `deadline`, a time of the
/// monotonic clock.
///
/// # Errors
///
/// `EAGAIN` if the futex has another value, `ETIMEDOUT`.
pub(crate) fn wait(futex: &AtomicU32, expected: u32, deadline: Option<u64>) -> Result<(), Errno> {
    let address = address(futex);
    let mut masked = Masked::new();
    let thread = cpu::here(&masked).sched.current();
    if !TABLE.wait(address, thread, || futex.load(SeqCst) == expected) {
        return Err(Errno::EAGAIN);
    }
    loop {
        schedule::wait_masked(&mut masked, thread, deadline);
        if !thread.entity().is_waiting() {
            return Ok(());
        }
        if deadline.is_some_and(|deadline| deadline <= clock::monotonic()) {
            return if TABLE.cancel(address, thread) { Err(Errno::ETIMEDOUT) } else { Ok(()) };
        }
    }
}

/// Wakes at most `count` threads that wait for an address, and returns their number.
#[inline]
pub(crate) fn wake(address: u64, count: usize) -> usize {
    if count == 1 { wake_one(address).into() } else { wake_many(address, count) }
}

/// Wakes the first thread that waits for an address. Returns whether there was one.
#[inline(never)]
fn wake_one(address: u64) -> bool {
    let masked = Masked::new();
    TABLE.wake_one(address, |thread| cpu::request_reschedule(&masked, SYSTEM.wake(thread)))
}

/// [`wake`] in batches. Interrupts are unmasked between two of them, so the caller may be preempted there.
#[inline(never)]
fn wake_many(address: u64, count: usize) -> usize {
    let mut wake_up = WakeUp::new(address, count);
    loop {
        let masked = Masked::new();
        if !TABLE.wake_batch(&mut wake_up, |thread| cpu::request_reschedule(&masked, SYSTEM.wake(thread))) {
            return wake_up.woken();
        }
    }
}

/// Wakes all threads that wait for a futex.
pub(crate) fn wake_all(futex: &AtomicU32) {
    wake_many(address(futex), usize::MAX);
}

/// Wakes the first thread that waits for a futex. Returns whether there may be another one.
#[inline(never)]
pub(crate) fn wake_next(futex: &AtomicU32) -> bool {
    let masked = Masked::new();
    TABLE.wake_next(address(futex), |thread| cpu::request_reschedule(&masked, SYSTEM.wake(thread)))
}
