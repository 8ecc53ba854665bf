//! Segment descriptors and the task state, of which 64-bit mode uses little: the code segment, and the stacks
//! that interrupts switch to (SDM volume 3, chapter 8.7). Each CPU has its own.

use spin::Once;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::tss::TaskStateSegment;

use super::stacks::InterruptStack;
use crate::memory;

static BOOT_TASK_STATE: Once<TaskStateSegment> = Once::new();
static BOOT_TABLE: Once<Table> = Once::new();

/// A descriptor table with the selectors of its code segment and its task state.
#[derive(Debug)]
pub(crate) struct Table {
    table: GlobalDescriptorTable,
    code: SegmentSelector,
    state: SegmentSelector,
}

/// The tops of a CPU's stacks for interrupts, in the order of [`InterruptStack`].
pub(crate) type StackTops = [u64; InterruptStack::COUNT];

fn task_state(stacks: StackTops) -> TaskStateSegment {
    let mut task_state = TaskStateSegment::new();
    // The table is packed: no reference into it is aligned.
    for (index, top) in stacks.into_iter().enumerate() {
        task_state.interrupt_stack_table[index] = VirtAddr::new(top);
    }
    task_state
}

impl Table {
    fn new(task_state: &'static TaskStateSegment) -> Self {
        let mut table = GlobalDescriptorTable::new();
        let code = table.append(Descriptor::kernel_code_segment());
        let state = table.append(Descriptor::tss_segment(task_state));
        Self { table, code, state }
    }

    /// For another CPU than the first; `None` if there is no memory.
    pub(crate) fn with_stacks(stacks: StackTops) -> Option<&'static Self> {
        memory::leak(Self::new(memory::leak(task_state(stacks))?))
    }

    /// Makes it the table of the CPU that calls, which no other may use.
    pub(crate) fn install(&'static self) {
        self.table.load();
        // SAFETY: the selector is that of a 64-bit code segment in the table just loaded.
        unsafe { CS::set_reg(self.code) };
        // SAFETY: 64-bit mode ignores the data segments; the null selector is valid for all of them.
        unsafe { SS::set_reg(SegmentSelector::NULL) };
        // SAFETY: as above.
        unsafe { DS::set_reg(SegmentSelector::NULL) };
        // SAFETY: as above.
        unsafe { ES::set_reg(SegmentSelector::NULL) };
        // SAFETY: the selector is that of the task state in the table just loaded, loaded once.
        unsafe { load_tss(self.state) };
    }
}

/// That of the first CPU, which needs no memory for it.
pub(super) fn of_first(stacks: StackTops) -> &'static Table {
    let task_state = BOOT_TASK_STATE.call_once(|| task_state(stacks));
    BOOT_TABLE.call_once(|| Table::new(task_state))
}
