//! Threads: connects the scheduler (`hermit-sched`) with the hardware (`hermit-hal`).
//!
//! Each module uses only modules above it in this table.
//!
//! | module | what |
//! | --- | --- |
//! | [`name`] | name of a thread |
//! | [`thread`] | a thread, and the table of all threads |
//! | [`cpu`] | a CPU: its run queue, timers and idle thread; timer interrupt, reschedule IPI, preemption |
//! | [`schedule`] | yield, sleep, wake up |
//! | [`waker`] | the `Waker` of a thread |
//! | [`errno`] | error number of a thread's last failed call |
//! | [`futex`] | waiting for a value in memory to change |
//! | [`wait`] | sleeping until a poll is ready |
//! | [`deferred_block`] | waiting in two steps, as old functions of the ABI do |
//! | [`lifecycle`] | creating, ending and joining threads |
//! | [`memory_return`] | the thread that returns free memory to the host |

pub(crate) mod cpu;
pub(crate) mod deferred_block;
pub(crate) mod errno;
pub(crate) mod futex;
pub(crate) mod lifecycle;
pub(crate) mod memory_return;
pub(crate) mod name;
pub(crate) mod schedule;
pub(crate) mod thread;
pub(crate) mod wait;
mod waker;
