//! The thread that writes what is collected of small writes to folders of the host, and the end of the program, before which
//! everything is written.

use core::pin::pin;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use core::task::Poll;

use hermit_abi::NORMAL_PRIO;
use hermit_hal::clock;
use hermit_interface::Errno;
use hermit_io::WaitQueue as _;

use super::system::mounted;
use crate::sync::{OnceLock, WaitQueue};
use crate::threads::lifecycle::{self, SpawnArgs};
use crate::threads::wait::{block_until, complete};

/// The stack of the thread.
const STACK_SIZE: usize = 64 << 10;

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

/// Has the thread write what is collected from now on when it is due. Returns false if there is no thread, or the machine ends.
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

extern "C" fn run(_: usize) {
    let Ok(vfs) = mounted() else { return };
    let mut due = None;
    loop {
        let is_urgent = block_until(due, |context| {
            WAITER.add(context);
            if IS_URGENT.swap(false, AcqRel) {
                return Poll::Ready(true);
            }
            // What is collected while something is due is found then.
            let has_collected = due.is_none() && HAS_COLLECTED.load(Acquire);
            if has_collected { Poll::Ready(false) } else { Poll::Pending }
        });
        HAS_COLLECTED.store(false, Release);
        let written = complete(vfs.write_back(is_urgent != Some(true)));
        due = written.unwrap_or_else(|_| Some(clock::monotonic() + RETRY_INTERVAL));
    }
}

/// Writes everything before the machine ends.
fn finish() {
    let Ok(vfs) = mounted() else { return };
    // Other threads ask for it with the file locked that `write_back` locks, too: it finds what they have collected before.
    IS_ENDING.store(true, Release);
    let mut writing = pin!(vfs.write_back(false));
    // A host that does not answer does not keep the machine: what it does not take is lost.
    block_until(Some(clock::monotonic() + EXIT_TIMEOUT), |context| writing.as_mut().poll(context).map(drop));
}
