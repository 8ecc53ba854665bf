//! Threads: what connects the scheduler with the hardware.
//!
//! | module | what |
//! | --- | --- |
//! | [`thread`] | one thread, and the table of all |
//! | [`name`] | what a thread is called |
//! | [`cpu`] | one CPU: its queue, its timers, its idle thread; what its interrupts do |
//! | [`schedule`] | yielding, waiting, waking |
//! | [`life`] | starting, ending and joining threads |
//! | [`futex`] | waiting for an address |
//! | [`announced`] | waiting in two steps |
//! | [`wait`] | waiting for whatever can be polled |

pub(crate) mod announced;
pub(crate) mod cpu;
pub(crate) mod futex;
pub(crate) mod life;
pub(crate) mod name;
pub(crate) mod schedule;
pub(crate) mod thread;
pub(crate) mod wait;

pub(crate) use thread::Thread;

use hermit_interface::Errno;

/// The error of the thread's last failed call.
pub(crate) fn errno() -> i32 {
    schedule::current().errno()
}

/// Notes why a call failed, and returns it the way calls return errors.
#[cold]
pub(crate) fn failed(error: Errno) -> i32 {
    schedule::current().set_errno(error);
    -error.number()
}
