//! The thread that writes what is collected of small writes to folders of the host, and the end of the
//! program, before which everything is written.

use core::cell::Cell;
use core::future::poll_fn;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use core::task::{Context, Poll};

use hermit_abi::NORMAL_PRIO;
use hermit_fs::{Vfs, join_each};
use hermit_hal::clock;
use hermit_interface::Errno;
use hermit_io::WaitQueue as _;

use super::system::{Kernel, mounted};
use crate::sync::{OnceLock, WaitQueue};
use crate::threads::lifecycle::{self, SpawnArgs};
use crate::threads::wait::block_until;

/// The stack of the thread, which has the futures of all mounts.
const STACK_SIZE: usize = 128 << 10;

/// Time in nanoseconds for which the end of the program waits for hosts.
const EXIT_TIMEOUT: u64 = 10_000_000_000;

/// Time in nanoseconds after which writing is tried again for which there was no memory.
const RETRY_INTERVAL: u64 = 1_000_000_000;

/// The thread while it waits.
static WAITER: WaitQueue = WaitQueue::new();

/// Whether writes have been collected since the thread looked last.
static HAS_COLLECTED: AtomicBool = AtomicBool::new(false);

/// Whether everything is to be written, as memory is short.
static IS_URGENT: AtomicBool = AtomicBool::new(false);

/// Whether the machine ends: nothing is collected any more, as nothing would write it.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Whether the thread runs; nothing is collected without it.
static THREAD: OnceLock<Result<(), Errno>> = OnceLock::new();

/// Has the thread write what is collected from now on when it is due. Returns false if there is no thread, or
/// the machine ends.
pub(super) fn data_collected() -> bool {
    let is_running = THREAD.get_or_init(start).is_ok() && !IS_ENDING.load(Acquire);
    if is_running && !HAS_COLLECTED.swap(true, AcqRel) {
        WAITER.wake();
    }
    is_running
}

/// Has the thread write everything, which frees memory, soon: the caller may hold what that needs.
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

/// What the thread has seen, for its futures: one for each mount, so that a host that does not answer delays
/// only its own.
#[derive(Debug, Default)]
struct Seen {
    /// How often writes had been collected, and everything was to be written, when the futures were polled.
    collected: Cell<u64>,
    urgent: Cell<u64>,
    /// The time at which the next future is to be polled.
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
    /// Polls the futures until the time changes at which they are to be polled next, or has come.
    fn wait(&self, poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>) {
        let due = self.due.get();
        block_until(due, |context| {
            WAITER.add(context);
            // What is collected while something is due is found then: while the flag is set, nothing wakes
            // the thread for it.
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

    /// Waits until what is collected for a mount is due, something was collected while nothing was, or
    /// everything is to be written; returns whether that is so. `last` has the counts from the last time.
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

    /// Writes what is collected for a mount when it is due, or everything when that is urgent. It does not
    /// end.
    async fn keep_writing(&self, vfs: &Vfs<Kernel>, mount: usize) {
        let (mut last, mut due) = ((0, 0), None);
        loop {
            let is_urgent = poll_fn(|_| self.poll_next(&mut last, due)).await;
            let written = vfs.write_back(mount, !is_urgent).await;
            due = written.unwrap_or_else(|_| Some(clock::monotonic() + RETRY_INTERVAL));
        }
    }
}

/// Writes what is collected for a mount.
async fn write(vfs: &Vfs<Kernel>, mount: usize) {
    // Without memory it is lost.
    let _: Result<Option<u64>, Errno> = vfs.write_back(mount, false).await;
}

/// Writes everything before the machine ends.
fn finish() {
    let Ok(vfs) = mounted() else { return };
    // Other threads ask for it with the file locked that `write_back` locks, too: it finds what they have
    // collected before.
    IS_ENDING.store(true, Release);
    let deadline = clock::monotonic() + EXIT_TIMEOUT;
    join_each(vfs.write_back_mounts(), &|mount| write(vfs, mount), &mut |poll| {
        // A host that does not answer does not keep the machine: what it does not take is lost.
        block_until(Some(deadline), |context| poll(context));
    });
}
