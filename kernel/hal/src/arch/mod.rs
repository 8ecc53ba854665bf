//! What differs between processors. There is one today.

mod x86_64;

#[doc(hidden)]
pub use x86_64::entry;
pub(crate) use x86_64::{context, cpu, entropy, local, port, preempt, processor, stacks, startup, trap, tsc};
