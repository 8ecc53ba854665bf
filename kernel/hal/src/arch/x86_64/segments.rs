//! Segment descriptors (GDT) and the task state segment (TSS). 64-bit mode uses only a little of both: the
//! code segment, and the interrupt stack table (IST). Each CPU has its own GDT and TSS.

use hermit_base::try_alloc::TryBox;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::tss::TaskStateSegment;

use super::stacks::StackTops;
use crate::fallible::OutOfMemory;
use crate::once::Once;

static BOOT_TASK_STATE: Once<TaskStateSegment> = Once::new();
static BOOT_TABLE: Once<Gdt> = Once::new();

/// A GDT, with the selectors of its code segment and its TSS.
#[derive(Debug)]
pub(super) struct Gdt {
    table: GlobalDescriptorTable,
    code: SegmentSelector,
    state: SegmentSelector,
}

fn task_state(stacks: StackTops) -> TaskStateSegment {
    let mut task_state = TaskStateSegment::new();
    // The structure is packed: its fields are assigned, never referenced.
    for (index, top) in stacks.into_iter().enumerate() {
        task_state.interrupt_stack_table[index] = VirtAddr::new(top);
    }
    task_state
}

impl Gdt {
    fn new(task_state: &'static TaskStateSegment) -> Self {
        let mut table = GlobalDescriptorTable::new();
        let code = table.append(Descriptor::kernel_code_segment());
        let state = table.append(Descriptor::tss_segment(task_state));
        Self { table, code, state }
    }

    /// The GDT of a secondary CPU with these interrupt stacks.
    pub(super) fn with_stacks(stacks: StackTops) -> Result<&'static Self, OutOfMemory> {
        let task_state = TryBox::leak(TryBox::try_new(task_state(stacks))?);
        Ok(TryBox::leak(TryBox::try_new(Self::new(task_state))?))
    }

    /// Loads the GDT and its TSS on the calling CPU. Both belong to this CPU alone.
    pub(super) fn install(&'static self) {
        self.table.load();
        // SAFETY: the selector is that of a 64-bit code segment in the table just loaded.
        unsafe { CS::set_reg(self.code) };
        // SAFETY: 64-bit mode ignores SS at privilege level 0, and the null selector is valid for it.
        unsafe { SS::set_reg(SegmentSelector::NULL) };
        // SAFETY: 64-bit mode ignores DS, and the null selector is valid for it.
        unsafe { DS::set_reg(SegmentSelector::NULL) };
        // SAFETY: 64-bit mode ignores ES, and the null selector is valid for it.
        unsafe { ES::set_reg(SegmentSelector::NULL) };
        // SAFETY: the selector is that of the TSS in the GDT just loaded. Each CPU has a GDT and a TSS of its
        // own and gets here once, so the TSS is not marked busy yet.
        unsafe { load_tss(self.state) };
    }
}

/// The GDT of the first CPU, in static memory.
pub(super) fn of_first(stacks: StackTops) -> &'static Gdt {
    let task_state = BOOT_TASK_STATE.call_once(|| task_state(stacks));
    BOOT_TABLE.call_once(|| Gdt::new(task_state))
}
