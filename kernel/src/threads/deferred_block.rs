//! Deferred blocks: waiting in two steps, as old functions of the ABI do. A thread first says for what it
//! will wait (`sys_add_queue`, `sys_block_current_task`), and blocks in a later call (`sys_wait`,
//! `sys_yield`), unless it was woken in between.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use hermit_hal::clock;
use hermit_hal::interrupts::Masked;
use hermit_interface::Errno;

use super::thread::Thread;
use super::{cpu, futex, schedule};

/// Notification counts of the wait queues. Queues whose addresses hash to the same entry wake each other
/// spuriously.
static COUNTS: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

/// A deadline that never comes.
const NEVER: u64 = u64::MAX;

fn count(queue: usize) -> &'static AtomicU32 {
    &COUNTS[(queue >> 4) % COUNTS.len()]
}

fn deadline(timeout_ns: Option<u64>) -> u64 {
    timeout_ns.map_or(NEVER, |timeout_ns| clock::monotonic().saturating_add(timeout_ns))
}

/// Prepares the current thread to [`wait`] for a queue with a timeout that begins now.
pub(crate) fn prepare_wait(queue: usize, timeout_ns: Option<u64>) {
    let deferred = &schedule::current().deferred_block;
    deferred.count.store(count(queue).load(SeqCst), Relaxed);
    deferred.deadline.store(deadline(timeout_ns), Relaxed);
}

/// Waits for the queue of the last [`prepare_wait`]; returns at once if it was notified since.
///
/// # Errors
///
/// `ETIMEDOUT`.
pub(crate) fn wait(queue: usize) -> Result<(), Errno> {
    let deferred = &schedule::current().deferred_block;
    let deadline = Some(deferred.deadline.load(Relaxed)).filter(|&deadline| deadline != NEVER);
    match futex::wait(count(queue), deferred.count.load(Relaxed), deadline) {
        // The count has changed: the queue was notified before.
        Err(Errno::EAGAIN) => Ok(()),
        result => result,
    }
}

/// Wakes all threads that wait for a queue. A shared count cannot tell which of them belong to this queue.
pub(crate) fn notify(queue: usize) {
    count(queue).fetch_add(1, SeqCst);
    futex::wake_all(count(queue));
}

/// Makes the current thread block in its next [`yield_now`], with a timeout that begins now.
pub(crate) fn block(timeout_ns: Option<u64>) {
    let deferred = &schedule::current().deferred_block;
    deferred.deadline.store(deadline(timeout_ns), Relaxed);
    deferred.block.store(true, Relaxed);
}

/// Ends the block of a thread by [`block`], or prevents its next one.
pub(crate) fn wake(thread: &'static Thread) {
    thread.deferred_block.woken.store(true, SeqCst);
    schedule::wake(thread);
}

/// Yields to other ready threads, or blocks if the thread has called [`block`].
///
/// A CPU that runs no thread yet has none to yield to: it does not panic, so that this function needs no
/// stack.
#[inline]
pub(crate) fn yield_now() {
    let masked = Masked::new();
    let Some(cpu) = cpu::try_here(&masked) else { return };
    let current = cpu.sched.current();
    if current.deferred_block.block.load(Relaxed) {
        drop(masked);
        return block_now();
    }
    if cpu.sched.ready_count() != 0 {
        schedule::yield_masked(masked, cpu, current);
    }
}

/// Blocks the current thread until [`wake`] or its deadline. Wake-ups by other means, such as those of a
/// descriptor that it polled before, do not end the block.
#[cold]
fn block_now() {
    let deferred = &schedule::current().deferred_block;
    deferred.block.store(false, Relaxed);
    let deadline = Some(deferred.deadline.load(Relaxed)).filter(|&deadline| deadline != NEVER);
    while !deferred.woken.swap(false, SeqCst) && deadline.is_none_or(|deadline| clock::monotonic() < deadline)
    {
        schedule::wait(deadline);
    }
}
