//! The interrupt descriptor table (IDT): the entry stub and the stack of each vector.

use spin::Once;
use x86_64::VirtAddr;
use x86_64::structures::idt::{Entry, InterruptDescriptorTable};

use super::stacks::InterruptStack;
use super::trap::{DOUBLE_FAULT, FIRST_LINE, MACHINE_CHECK, NON_MASKABLE, TrapHandler};
use super::trap_entry;

static TABLE: Once<InterruptDescriptorTable> = Once::new();

/// Loads the IDT on the calling CPU: its exceptions and interrupts go to `H`. There is one `H` for all CPUs.
pub(super) fn load<H: TrapHandler>() {
    let table = TABLE.call_once(|| {
        let mut table = InterruptDescriptorTable::new();
        for (vector, stub) in trap_entry::stubs::<H>() {
            set(&mut table, vector, VirtAddr::from_ptr(stub as *const ()));
        }
        table
    });
    table.load();
}

fn set(table: &mut InterruptDescriptorTable, vector: u8, stub: VirtAddr) {
    let stack = match u64::from(vector) {
        NON_MASKABLE | MACHINE_CHECK => InterruptStack::NonMaskable,
        DOUBLE_FAULT => InterruptStack::DoubleFault,
        _ if vector >= FIRST_LINE => InterruptStack::Device,
        _ => InterruptStack::Fault,
    };
    match u64::from(vector) {
        8 => fill(&mut table.double_fault, stub, stack),
        10 => fill(&mut table.invalid_tss, stub, stack),
        11 => fill(&mut table.segment_not_present, stub, stack),
        12 => fill(&mut table.stack_segment_fault, stub, stack),
        13 => fill(&mut table.general_protection_fault, stub, stack),
        14 => fill(&mut table.page_fault, stub, stack),
        17 => fill(&mut table.alignment_check, stub, stack),
        18 => fill(&mut table.machine_check, stub, stack),
        21 => fill(&mut table.cp_protection_exception, stub, stack),
        29 => fill(&mut table.vmm_communication_exception, stub, stack),
        30 => fill(&mut table.security_exception, stub, stack),
        _ => fill(&mut table[vector], stub, stack),
    }
}

fn fill<F>(entry: &mut Entry<F>, stub: VirtAddr, stack: InterruptStack) {
    // SAFETY: the address is that of the vector's stub, which leaves the stack as IRETQ needs it: it pops the error
    // code, which it has pushed itself where the processor pushes none.
    let options = unsafe { entry.set_handler_addr(stub) };
    // SAFETY: the TSS of every CPU has a mapped stack at each index of `InterruptStack`. Interrupts run with the
    // interrupt flag clear; the exceptions, double faults and non-maskable interrupts that can still interrupt them
    // have stacks of their own.
    unsafe { options.set_stack_index(stack as u16) };
}
