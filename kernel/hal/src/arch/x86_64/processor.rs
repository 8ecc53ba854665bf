//! Preparation of a CPU for kernel code.

use super::local::Base;
use super::segments::{self, Gdt};
use super::stacks::{INTERRUPT_STACKS, StackTops};
use super::trap::TrapHandler;
use super::{cpu, idt};

/// Data of one CPU.
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

    /// Prepares the calling CPU with privileged instructions. Afterwards `H` handles its exceptions and
    /// interrupts.
    pub(crate) fn enter<H: TrapHandler>(&self) {
        self.local.install();
        self.table.install();
        idt::load::<H>();
        cpu::init();
    }
}
