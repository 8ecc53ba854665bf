//! Writes back the collected data of small writes to folders of the host. A kernel thread does this while the
//! program runs, and [`finish`] at the end of the program.
//!
//! Writes to a file of the host are collected in memory, since each message to the host is expensive. When
//! the first write is collected, a kernel thread is started. It sleeps until one of three events: the data of
//! a mount is due (`Vfs::write_back` returns the time); data is collected while no time is set; or memory is
//! short, so all data must be written at once.
//!
//! The thread runs one future for each mount ([`Seen::keep_writing`]), so that a host that does not answer
//! delays only its own mount. The two flags [`HAS_COLLECTED`] and [`IS_URGENT`] wake the thread. The thread
//! converts them to counters ([`Seen`]), because each future must see each event, but only one future could
//! consume a flag.
//!
//! [`finish`] writes everything before the machine ends, within [`EXIT_TIMEOUT`].

use core::cell::Cell;
use core::future::poll_fn;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use core::task::{Context, Poll};

use hermit_abi::NORMAL_PRIO;
use hermit_fs::{Vfs, join_each};
use hermit_hal::clock;
use hermit_interface::Errno;

use super::system::{Kernel, mounted};
use crate::sync::{OnceLock, WaitQueue};
use crate::threads::lifecycle::{self, SpawnArgs};
use crate::threads::wait::block_until;

/// Size in bytes of the thread's stack. The futures of all mounts are on it.
const STACK_SIZE: usize = 128 << 10;

/// Time in nanoseconds for which the end of the program waits for the hosts.
const EXIT_TIMEOUT: u64 = 10_000_000_000;

/// Time in nanoseconds after which a write that failed for lack of memory is tried again.
const RETRY_INTERVAL: u64 = 1_000_000_000;

/// Wait queue of the thread.
static WAITER: WaitQueue = WaitQueue::new();

/// True if writes have been collected since the thread last checked.
static HAS_COLLECTED: AtomicBool = AtomicBool::new(false);

/// True if all data must be written soon, because memory is short.
static IS_URGENT: AtomicBool = AtomicBool::new(false);

/// True if the machine is ending. Then no more writes are collected, since no thread would write them back.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Result of starting the thread. The first collected write starts it. Without the thread, no writes are
/// collected.
static THREAD: OnceLock<Result<(), Errno>> = OnceLock::new();

/// Makes the thread write the collected data when it is due. Returns false if there is no thread, or if the
/// machine is ending. Then the caller must not collect writes.
pub(super) fn data_collected() -> bool {
    let is_running = THREAD.get_or_init(start).is_ok() && !IS_ENDING.load(Acquire);
    if is_running && !HAS_COLLECTED.swap(true, AcqRel) {
        WAITER.wake();
    }
    is_running
}

/// Makes the thread write all data soon, which frees memory. Does not wait, because the caller may hold locks
/// that the thread needs for this.
pub(super) fn write_soon() {
    if let Some(Ok(())) = THREAD.get() {
        IS_URGENT.store(true, Release);
        WAITER.wake();
    }
}

fn start() -> Result<(), Errno> {
    let args =
        SpawnArgs { function: (run, 0), priority: NORMAL_PRIO.into(), stack_size: STACK_SIZE, cpu: None };
    lifecycle::spawn_for_kernel(&args)?;
    lifecycle::set_finish_files(finish);
    Ok(())
}

/// Events that the thread has seen, counted for its futures. There is one future for each mount, so that a
/// host that does not answer delays only its own mount.
#[derive(Debug, Default)]
struct Seen {
    /// Number of times that the thread has found [`HAS_COLLECTED`] and [`IS_URGENT`] set.
    collected: Cell<u64>,
    urgent: Cell<u64>,
    /// Earliest time at which one of the futures must be polled again.
    due: Cell<Option<u64>>,
}

extern "C" fn run(_: usize) {
    let Ok(vfs) = mounted() else { return };
    let seen = Seen::default();
    join_each(vfs.write_back_mounts(), &|mount| seen.keep_writing(vfs, mount), &mut |poll| {
        loop {
            seen.wait(poll);
        }
    });
}

impl Seen {
    /// Polls the futures each time the thread is woken. Ends when the time at which they must next be polled
    /// has come, or has changed.
    fn wait(&self, poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) {
        let due = self.due.get();
        block_until(due, |context| {
            WAITER.add(context);
            // While a later time is set, the flag stays set, so that further writes do not wake the thread.
            // It finds their data at that time.
            let is_time = due.is_none_or(|due| due <= clock::monotonic());
            for (looks, flag, count) in
                [(is_time, &HAS_COLLECTED, &self.collected), (true, &IS_URGENT, &self.urgent)]
            {
                count.set(count.get() + u64::from(looks && flag.swap(false, AcqRel)));
            }
            self.due.set(None);
            let polled = poll(context);
            if self.due.get() == due { polled } else { Poll::Ready(()) }
        });
    }

    /// Waits until the data of a mount is due, until data is collected while no time is set, or until all
    /// data must be written. Returns true in the last case. `last` has the counts at the last call.
    fn poll_next(&self, last: &mut (u64, u64), due: Option<u64>) -> Poll<bool> {
        let counts = (self.collected.get(), self.urgent.get());
        let is_urgent = counts.1 != last.1;
        let is_due = due.map_or(counts.0 != last.0, |due| due <= clock::monotonic());
        if is_urgent || is_due {
            *last = counts;
            return Poll::Ready(is_urgent);
        }
        self.due.set(self.due.get().into_iter().chain(due).min());
        Poll::Pending
    }

    /// Writes the data of a mount when it is due, or all its data when memory is short. Never returns.
    async fn keep_writing(&self, vfs: &Vfs<Kernel>, mount: usize) {
        let (mut last, mut due) = ((0, 0), None);
        loop {
            let is_urgent = poll_fn(|_| self.poll_next(&mut last, due)).await;
            let written = vfs.write_back(mount, !is_urgent).await;
            due = written.unwrap_or_else(|_| Some(clock::monotonic() + RETRY_INTERVAL));
        }
    }
}

/// Writes all collected data of a mount.
async fn write(vfs: &Vfs<Kernel>, mount: usize) {
    // An error means that there was no memory for the writes. The data is lost.
    let _: Result<Option<u64>, Errno> = vfs.write_back(mount, false).await;
}

/// Writes all data before the machine ends.
fn finish() {
    let Ok(vfs) = mounted() else { return };
    // Other threads call `data_collected` while they hold the file's lock, and `write_back` takes the same
    // lock. So `write_back` finds all data that was collected before the flag was set.
    IS_ENDING.store(true, Release);
    let deadline = clock::monotonic() + EXIT_TIMEOUT;
    join_each(vfs.write_back_mounts(), &|mount| write(vfs, mount), &mut |poll| {
        // A host that does not answer must not keep the machine running. Data that the host has not accepted
        // by the deadline is lost.
        block_until(Some(deadline), |context| poll(context));
    });
}
