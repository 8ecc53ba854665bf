//! Waiting: queues of the tasks that wait for a change.
//!
//! A task is a future with its waker. In the kernel, that is mostly a thread that blocks in a call. To wait,
//! a task adds its waker to a queue, looks again, and returns `Pending`. The second look closes a race: the
//! state may change between the first look and the addition. A change removes wakers under the lock of the
//! queue, and calls them after it has released the lock, because a waker takes locks of the scheduler.
//!
//! | type | locked by | used for |
//! | --- | --- | --- |
//! | [`WakerQueue`] | its user | tasks that wait for a state that a lock protects, together with the state |
//! | [`Semaphore`] | its user | permits that a release hands over to the first waiter |
//! | [`WaitQueue`] | itself | tasks that wait for a state that is atomic or has another lock |
//!
//! Futexes (`hermit_sched::futex`) have queues of their own: their waiters are threads, and the queues are
//! linked through the threads, so a wait takes no memory.

mod semaphore;
mod wait_queue;
mod waker_queue;

pub use semaphore::{Acquisition, Semaphore};
pub use wait_queue::WaitQueue;
pub use waker_queue::{TakenWakers, WakerQueue};
