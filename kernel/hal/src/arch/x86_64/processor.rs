//! What a CPU needs before kernel code runs on it.

use super::local::Base;
pub(crate) use super::segments::StackTops;
use super::segments::{self, Gdt};
use super::stacks::INTERRUPT_STACKS;
use super::{cpu, trap};

/// What belongs to one CPU.
#[derive(Debug)]
pub(crate) struct Processor {
    /// The CPU-local block.
    pub(crate) local: Base,
    /// The interrupt stacks.
    pub(crate) stacks: StackTops,
    /// The segment descriptors, which refer to the interrupt stacks.
    pub(super) table: &'static Gdt,
}

impl Processor {
    /// The first CPU, with static interrupt stacks.
    pub(crate) fn first(local: Base) -> Self {
        let stacks = INTERRUPT_STACKS.each_ref().map(|stack| stack.top());
        Self { local, stacks, table: segments::of_first(stacks) }
    }

    /// Prepares the calling CPU, by privileged instructions. From here on its exceptions and interrupts go to `H`.
    pub(crate) fn enter<H: trap::TrapHandler>(&self) {
        self.local.install();
        self.table.install();
        trap::load::<H>();
        cpu::init();
    }
}
