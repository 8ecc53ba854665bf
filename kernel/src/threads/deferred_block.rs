//! Deferred blocks: waiting in two steps, as old functions of the ABI do. A thread first announces what it
//! will wait for (`sys_add_queue`, `sys_block_current_task`). It blocks in a later call (`sys_wait`,
//! `sys_yield`), unless it was woken between the two calls.

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

/// Prepares the current thread to [`wait`] for a queue. The timeout begins now.
pub(crate) fn prepare_wait(queue: usize, timeout_ns: Option<u64>) {
    let deferred = &schedule::current().deferred_block;
    deferred.count.store(count(queue).load(SeqCst), Relaxed);
    deferred.deadline.store(deadline(timeout_ns), Relaxed);
}

/// Waits for the queue of the last [`prepare_wait`]. Returns at once if the queue was notified since then.
///
/// # Errors
///
/// `ETIMEDOUT`.
pub(crate) fn wait(queue: usize) -> Result<(), Errno> {
    let deferred = &schedule::current().deferred_block;
    let deadline = Some(deferred.deadline.load(Relaxed)).filter(|&deadline| deadline != NEVER);
    match futex::wait(count(queue), deferred.count.load(Relaxed), deadline) {
        // The count has changed, so the queue was notified after `prepare_wait`.
        Err(Errno::EAGAIN) => Ok(()),
        result => result,
    }
}

/// Wakes all threads that wait for a queue. It always wakes all, because several queues may share a count,
/// which does not tell whose waiters they are.
pub(crate) fn notify(queue: usize) {
    count(queue).fetch_add(1, SeqCst);
    futex::wake_all(count(queue));
}

/// Makes the current thread block in its next [`yield_now`]. The timeout begins now.
pub(crate) fn block(timeout_ns: Option<u64>) {
    let deferred = &schedule::current().deferred_block;
    deferred.deadline.store(deadline(timeout_ns), Relaxed);
    deferred.block.store(true, Relaxed);
}

/// Wakes a thread that has blocked after [`block`]. If the thread is not blocked, prevents its next block.
pub(crate) fn wake(thread: &'static Thread) {
    thread.deferred_block.woken.store(true, SeqCst);
    schedule::wake(thread);
}

/// Yields to other ready threads, or blocks if the thread has called [`block`].
///
/// Does nothing on a CPU that does not run threads yet. It does not panic in this case, so that this function
/// needs no stack frame.
#[inline]
pub(crate) fn yield_now() {
    let masked = Masked::new();
    let Some(cpu) = cpu::try_here(&masked) else { return };
    let current = cpu.sched.current();
    if current.deferred_block.block.load(Relaxed) {
        drop(masked);
        return block_until_woken();
    }
    if cpu.sched.ready_count() != 0 {
        schedule::yield_masked(masked, cpu, current);
    }
}

/// Blocks the current thread until [`wake`] or until its deadline. Other wake-ups, such as those of a
/// descriptor that the thread polled before, do not end the block.
#[cold]
fn block_until_woken() {
    let deferred = &schedule::current().deferred_block;
    deferred.block.store(false, Relaxed);
    let deadline = Some(deferred.deadline.load(Relaxed)).filter(|&deadline| deadline != NEVER);
    while !deferred.woken.swap(false, SeqCst) && deadline.is_none_or(|deadline| clock::monotonic() < deadline)
    {
        schedule::wait(deadline);
    }
}
