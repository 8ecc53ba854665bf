//! The scheduler: run queues and policies, placement and work stealing, futex wait queues, timers.
//!
//! Pure logic without hardware: it returns the thread to switch to and the CPU to reschedule, and its caller
//! switches and sends the reschedule IPI. Threads are `&'static` objects that are reused and never freed,
//! linked into queues through fields of their own (intrusively). So nothing here allocates, and nothing can
//! fail.
//!
//! | module | |
//! | --- | --- |
//! | [`thread`] | the scheduler's part of a thread, with the park token |
//! | [`thread_table`] | threads by number |
//! | [`list`], [`queue_array`] | intrusive lists of threads, and an array of them with a bitmap |
//! | [`policy`] | scheduling policies: fair, round-robin, FIFO |
//! | [`cpu`] | the run queue of a CPU: yielding, preemption, picking the next thread |
//! | [`cpus`] | all CPUs: waking, placement, stealing |
//! | [`timers`] | timers of sleeping threads |
//! | [`futex`], [`mutex`] | wait queues by address, and a sleeping mutex on them |
//!
//! No code holds two locks of futex buckets, run queues or timer heaps at the same time.
//!
//! ```
//! use hermit_sched::policy::{Policy, RoundRobin};
//! use hermit_sched::thread::{Entity, Thread};
//!
//! #[derive(Default)]
//! struct Task {
//!     entity: Entity<Self>,
//! }
//!
//! impl Thread for Task {
//!     fn entity(&self) -> &Entity<Self> {
//!         &self.entity
//!     }
//!
//!     fn is_running(&self) -> bool {
//!         false
//!     }
//! }
//!
//! let tasks = [0, 1].map(|_| &*Box::leak(Box::new(Task::default())));
//! tasks[1].entity.set_priority(1);
//! let mut run_queue = RoundRobin::default();
//! for task in tasks {
//!     run_queue.enqueue(task);
//! }
//! assert!(run_queue.pick_next().is_some_and(|next| std::ptr::eq(next, tasks[1])));
//! ```
#![no_std]
#![forbid(unsafe_code)]

pub mod cpu;
pub mod cpus;
pub mod futex;
mod link;
pub mod list;
pub mod mutex;
pub mod policy;
pub mod queue_array;
mod run_time;
mod slices;
pub mod thread;
pub mod thread_table;
pub mod timers;
mod trial;
mod wait_tree;

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod simulation;
#[cfg(test)]
#[cfg(not(loom))]
mod testing;
