//! The scheduler: who runs when and where, who waits for what, and until when.
//!
//! Pure logic without hardware: it says which thread to switch to and which CPU to tell, and its caller does it.
//! Threads are `&'static` objects that are used again and never freed, linked into queues through fields of their
//! own, so that nothing here allocates and nothing can fail.
//!
//! | module | what |
//! | --- | --- |
//! | [`thread`] | what a thread must have, and the token by which it is woken |
//! | [`list`], [`levels`] | queues of threads, and an array of them with a bitmap |
//! | [`policy`] | who is next: first in, first out; round-robin; fair |
//! | [`cpu`] | the ready threads of one CPU, and all CPUs: yielding, waking, stealing |
//! | [`sync`] | what locks must offer |
//! | [`timers`] | who is to be woken when |
//! | [`futex`] | who waits for which address |
//!
//! Locks are taken in the order futex bucket, ready threads of a CPU. Never two of a kind, and timers alone.
#![no_std]
#![forbid(unsafe_code)]

pub mod cpu;
pub mod futex;
pub mod levels;
pub mod list;
pub mod policy;
pub mod sync;
pub mod thread;
pub mod timers;

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod testing;
