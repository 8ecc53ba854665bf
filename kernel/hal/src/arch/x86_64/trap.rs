//! Exceptions and interrupts: the interrupt descriptor table (IDT), and what their vectors and error codes mean.

use spin::Once;
use x86_64::VirtAddr;
use x86_64::registers::control::Cr2;
use x86_64::structures::idt::{Entry, InterruptDescriptorTable};

use super::cpu;
use super::stacks::InterruptStack;
use super::trap_entry;

pub use super::trap_entry::TrapFrame;

const DIVIDE_ERROR: u64 = 0;
const DEBUG: u64 = 1;
const NON_MASKABLE: u64 = 2;
const BREAKPOINT: u64 = 3;
const INVALID_OPCODE: u64 = 6;
const DOUBLE_FAULT: u64 = 8;
const STACK_SEGMENT: u64 = 12;
const GENERAL_PROTECTION: u64 = 13;
const PAGE_FAULT: u64 = 14;
const X87: u64 = 16;
const ALIGNMENT: u64 = 17;
const MACHINE_CHECK: u64 = 18;
const SIMD: u64 = 19;

/// Vector of interrupt line 0, the first of the device lines.
pub(crate) const FIRST_LINE: u8 = hermit_interface::machine::FIRST_VECTOR;

/// Vector of the local APIC's timer.
pub(crate) const TIMER_VECTOR: u8 = 64;

/// Vector of the reschedule IPI.
pub(crate) const RESCHEDULE_VECTOR: u8 = 65;

/// Vector of the TLB shootdown IPI.
pub(crate) const TLB_VECTOR: u8 = 66;

/// Vector of interrupts that went away before they could be delivered.
pub(crate) const SPURIOUS_VECTOR: u8 = 255;

/// Bits of a page fault's error code (SDM volume 3, section 4.7).
const PRESENT: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const FETCH: u64 = 1 << 4;

/// Trap flag of RFLAGS: a debug exception after each instruction (SDM volume 3, section 2.3).
const TRAP_FLAG: u64 = 1 << 8;

/// What the kernel does about exceptions and interrupts. The type is a parameter of [`load`], so that the entry
/// stubs call the functions directly. All of them run on an interrupt stack with the interrupt flag clear.
pub(crate) trait TrapHandler {
    /// A device raised an interrupt line.
    fn device(line: u8, frame: &mut TrapFrame);

    /// The timer of this CPU expired.
    fn timer(frame: &mut TrapFrame);

    /// Another CPU sent the reschedule IPI.
    fn reschedule(frame: &mut TrapFrame);

    /// Another CPU sent the TLB shootdown IPI.
    fn flush_tlb();

    /// Whether another CPU sent a non-maskable interrupt to stop this one.
    fn is_stopped() -> bool;

    /// An exception was raised. Returns if the interrupted code can continue.
    fn exception(exception: Exception, frame: &mut TrapFrame);
}

/// The access that caused a page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultAccess {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch.
    Execute,
}

/// An exception, in terms that do not depend on the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exception {
    /// A page fault.
    Page {
        /// The address that was accessed.
        address: u64,
        /// The access.
        access: FaultAccess,
        /// There is a page at the address, which does not allow the access.
        is_present: bool,
    },
    /// An exception while another one was being delivered: the stack pointer is wrong, for instance.
    Double,
    /// An instruction that the processor does not have.
    IllegalInstruction,
    /// An arithmetic exception: integer division, or unmasked floating-point exception.
    Arithmetic,
    /// Another violation of the processor's rules.
    Protection,
    /// A misaligned access.
    Alignment,
    /// A breakpoint, or another debug exception.
    Breakpoint,
    /// A single step for a debugger outside of the machine: the code continues.
    SingleStep,
    /// Another exception, by its vector.
    Other(u64),
}

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

/// Called by the entry stubs with the interrupted code's registers.
pub(super) extern "C" fn handle<H: TrapHandler>(frame: &mut TrapFrame) {
    let vector = frame.vector.to_le_bytes()[0];
    match vector {
        SPURIOUS_VECTOR => {}
        TIMER_VECTOR => H::timer(frame),
        RESCHEDULE_VECTOR => H::reschedule(frame),
        TLB_VECTOR => H::flush_tlb(),
        FIRST_LINE.. => H::device(vector - FIRST_LINE, frame),
        _ if frame.vector == NON_MASKABLE && H::is_stopped() => cpu::stop(),
        _ => {
            let exception = decode(frame, Cr2::read_raw());
            H::exception(exception, frame);
        }
    }
}

/// What the exception in `frame` means; `address` is the one that a page fault is about (CR2).
pub(crate) fn decode(frame: &mut TrapFrame, address: u64) -> Exception {
    match frame.vector {
        DEBUG if frame.rflags & TRAP_FLAG != 0 => {
            // A debugger outside of the machine steps by this flag, which is in the frame too if the step came to
            // an interrupt or to a stack that grows. The debugger may be gone by the time that the frame is
            // restored.
            frame.rflags &= !TRAP_FLAG;
            Exception::SingleStep
        }
        DIVIDE_ERROR | X87 | SIMD => Exception::Arithmetic,
        DEBUG | BREAKPOINT => Exception::Breakpoint,
        INVALID_OPCODE => Exception::IllegalInstruction,
        PAGE_FAULT => {
            let access = if frame.error & FETCH != 0 {
                FaultAccess::Execute
            } else if frame.error & WRITE != 0 {
                FaultAccess::Write
            } else {
                FaultAccess::Read
            };
            Exception::Page { address, access, is_present: frame.error & PRESENT != 0 }
        }
        DOUBLE_FAULT => Exception::Double,
        STACK_SEGMENT | GENERAL_PROTECTION => Exception::Protection,
        ALIGNMENT => Exception::Alignment,
        vector => Exception::Other(vector),
    }
}
