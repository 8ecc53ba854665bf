//! Segment descriptors and the task state, of which 64-bit mode uses little: the code segment, and the stacks
//! that interrupts switch to (SDM volume 3, chapter 8.7).

use spin::Once;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::tss::TaskStateSegment;

use super::stacks::INTERRUPT_STACKS;

static TASK_STATE: Once<TaskStateSegment> = Once::new();
static TABLE: Once<(GlobalDescriptorTable, SegmentSelector, SegmentSelector)> = Once::new();

/// Replaces the loader's descriptors by ours.
pub(super) fn init() {
    let task_state = TASK_STATE.call_once(|| {
        let mut task_state = TaskStateSegment::new();
        // The table is packed: no reference into it is aligned.
        for (index, stack) in INTERRUPT_STACKS.iter().enumerate() {
            task_state.interrupt_stack_table[index] = VirtAddr::new(stack.top());
        }
        task_state
    });
    let (table, code, state) = TABLE.call_once(|| {
        let mut table = GlobalDescriptorTable::new();
        let code = table.append(Descriptor::kernel_code_segment());
        let state = table.append(Descriptor::tss_segment(task_state));
        (table, code, state)
    });
    table.load();
    // SAFETY: the selector is that of a 64-bit code segment in the table just loaded.
    unsafe { CS::set_reg(*code) };
    // SAFETY: 64-bit mode ignores the data segments; the null selector is valid for all of them.
    unsafe { SS::set_reg(SegmentSelector::NULL) };
    // SAFETY: as above.
    unsafe { DS::set_reg(SegmentSelector::NULL) };
    // SAFETY: as above.
    unsafe { ES::set_reg(SegmentSelector::NULL) };
    // SAFETY: the selector is that of the task state in the table just loaded, loaded once.
    unsafe { load_tss(*state) };
}
