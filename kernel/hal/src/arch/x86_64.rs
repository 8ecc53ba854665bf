//! 64-bit x86. `SDM` is Intel's Software Developer's Manual.

pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod counter;
pub(crate) mod cpu;
pub(crate) mod entropy;
pub mod entry;
mod idt;
pub(crate) mod local;
#[cfg(any(target_os = "none", test))]
mod memory_functions;
pub(crate) mod port;
pub(crate) mod preempt;
pub(crate) mod processor;
mod segments;
pub(crate) mod stacks;
pub(crate) mod startup;
pub(crate) mod tlb;
pub(crate) mod trap;
mod trap_entry;
mod trap_frame;
