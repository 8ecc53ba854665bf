//! Waiting in two steps, as early versions of the ABI do it: a thread says that it will wait, and later waits, unless it
//! has been woken in between.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use hermit_hal::clock;
use hermit_interface::Errno;

use super::{Thread, futex, schedule};

/// How often the queues were notified; those with the same hash share a count, and wake each other for no reason.
static COUNTS: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

const NEVER: u64 = u64::MAX;

fn count(queue: usize) -> &'static AtomicU32 {
    &COUNTS[(queue >> 4) % COUNTS.len()]
}

fn deadline(nanoseconds: Option<u64>) -> u64 {
    nanoseconds.map_or(NEVER, |nanoseconds| clock::monotonic().saturating_add(nanoseconds))
}

/// The current thread will wait for a queue, for at most so long.
pub(crate) fn add(queue: usize, nanoseconds: Option<u64>) {
    let announced = &schedule::current().announced;
    announced.count.store(count(queue).load(SeqCst), Relaxed);
    announced.deadline.store(deadline(nanoseconds), Relaxed);
}

/// The current thread waits for the queue that it has announced.
///
/// # Errors
///
/// `ETIMEDOUT`.
pub(crate) fn wait(queue: usize) -> Result<(), Errno> {
    let announced = &schedule::current().announced;
    let deadline = Some(announced.deadline.load(Relaxed)).filter(|&deadline| deadline != NEVER);
    match futex::wait(count(queue), announced.count.load(Relaxed), deadline) {
        // It was notified before.
        Err(Errno::EAGAIN) => Ok(()),
        result => result,
    }
}

/// Wakes the threads that wait for a queue: all of them, since a count says nothing of who is how many.
pub(crate) fn notify(queue: usize) {
    count(queue).fetch_add(1, SeqCst);
    futex::wake_all(count(queue));
}

/// The current thread will wait when it next yields, for at most so long.
pub(crate) fn block(nanoseconds: Option<u64>) {
    let announced = &schedule::current().announced;
    announced.deadline.store(deadline(nanoseconds), Relaxed);
    announced.block.store(true, Relaxed);
}

/// Ends the wait of [`block`], or the next one.
pub(crate) fn wake(thread: &'static Thread) {
    thread.announced.woken.store(true, SeqCst);
    schedule::wake(thread);
}

/// Waits as the current thread has announced. What wakes it for another reason, such as a descriptor that it waited for
/// before, does not count.
#[cold]
pub(super) fn wait_now() {
    let announced = &schedule::current().announced;
    announced.block.store(false, Relaxed);
    let deadline = Some(announced.deadline.load(Relaxed)).filter(|&deadline| deadline != NEVER);
    while !announced.woken.swap(false, SeqCst)
        && deadline.is_none_or(|deadline| clock::monotonic() < deadline)
    {
        schedule::wait(deadline);
    }
}
