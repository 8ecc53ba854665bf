//! What a CPU must have before kernel code runs on it.

use super::local::{self, Local};
pub(crate) use super::segments::StackTops;
use super::segments::{self, Table};
use super::stacks::INTERRUPT_STACKS;
use super::{cpu, trap};

/// What belongs to a CPU.
#[derive(Debug)]
pub(crate) struct Processor {
    /// Its own data.
    pub(crate) local: &'static Local,
    /// Its stacks for interrupts.
    pub(crate) stacks: StackTops,
    /// Its segment descriptors, of which a machine knows where those stacks are.
    pub(super) table: &'static Table,
}

impl Processor {
    /// The first one.
    pub(super) fn first() -> Self {
        let stacks = INTERRUPT_STACKS.each_ref().map(|stack| stack.top());
        Self { local: &local::BOOT_CPU, stacks, table: segments::of_first(stacks) }
    }

    /// Prepares the CPU that calls, by instructions that take privilege.
    pub(crate) fn enter(&self) {
        self.local.install();
        self.table.install();
        trap::load();
        cpu::init();
    }
}
