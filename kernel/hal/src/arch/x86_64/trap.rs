//! What happens on exceptions and interrupts.

use spin::Once;
use x86_64::VirtAddr;
use x86_64::registers::control::Cr2;
use x86_64::structures::idt::{Entry, InterruptDescriptorTable};

use crate::fault::{self, Fault, Kind};
use crate::interrupts::{self, KICK, TIMER};
use crate::memory::shootdown;
use crate::{memory, platform};

use super::cpu;
use super::stacks::InterruptStack;
use super::trap_entry;

pub use super::trap_entry::Frame;

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

/// Vector of interrupt line 0, the first of the lines that come from devices.
pub(crate) const FIRST_LINE: u8 = hermit_interface::machine::FIRST_VECTOR;

/// Vector of the CPU's own timer.
pub(crate) const TIMER_VECTOR: u8 = 64;

/// Vector by which a CPU is told to look at its queue of threads.
pub(crate) const KICK_VECTOR: u8 = 65;

/// Vector by which a CPU is told to forget mappings.
pub(crate) const FLUSH_VECTOR: u8 = 66;

/// Vector of interrupts that went away before they could be delivered.
pub(crate) const SPURIOUS_VECTOR: u8 = 255;

/// Bits of a page fault's error code (SDM volume 3, section 4.7).
const PRESENT: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const FETCH: u64 = 1 << 4;

/// Bit of RFLAGS: a trap after each instruction (SDM volume 3, section 2.3).
const TRAP_FLAG: u64 = 1 << 8;

static TABLE: Once<InterruptDescriptorTable> = Once::new();

/// Catches exceptions and interrupts from here on, on the CPU that calls.
pub(super) fn load() {
    let table = TABLE.call_once(|| {
        let mut table = InterruptDescriptorTable::new();
        for (vector, stub) in trap_entry::stubs() {
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
    // SAFETY: the address is that of the vector's stub, which keeps to the processor's convention.
    let options = unsafe { entry.set_handler_addr(stub) };
    // SAFETY: the index is that of a stack in the task state; interrupts that can interrupt each other have
    // different ones.
    unsafe { options.set_stack_index(stack as u16) };
}

/// Called by the stubs with the interrupted code's registers.
pub(super) extern "C" fn handle(frame: &mut Frame) {
    let vector = frame.vector.to_le_bytes()[0];
    match vector {
        SPURIOUS_VECTOR => {}
        TIMER_VECTOR => interrupts::raised(TIMER, frame),
        KICK_VECTOR => interrupts::raised(KICK, frame),
        FLUSH_VECTOR => {
            platform::current().acknowledge(TIMER);
            shootdown::serve();
        }
        FIRST_LINE.. => interrupts::raised(vector - FIRST_LINE, frame),
        _ if frame.vector == NON_MASKABLE && fault::is_stopped() => cpu::stop(),
        _ => {
            interrupts::enter_exception();
            exception(frame, Cr2::read_raw(), false);
            interrupts::leave_exception(frame);
        }
    }
}

/// Handles an exception; `address` is what a page fault is about, and `is_host_out` says whether it is one because the host has no
/// memory. Returns if the interrupted code can go on.
pub(crate) fn exception(frame: &mut Frame, address: u64, is_host_out: bool) {
    if frame.vector == DEBUG && frame.rflags & TRAP_FLAG != 0 {
        // A debugger outside of the machine steps by this flag, which is on the stack too if the step came to an interrupt
        // or to a stack that grows. By the time that the flag is restored, the debugger may be gone.
        frame.rflags &= !TRAP_FLAG;
        return;
    }
    if frame.vector == PAGE_FAULT && is_host_out {
        fault::report(&Fault { kind: Kind::NoHostMemory(address), frame: *frame });
    }
    if frame.vector == PAGE_FAULT
        && frame.error & (PRESENT | FETCH) == 0
        && memory::stack::extend(address).is_ok()
    {
        return;
    }
    fault::report(&Fault { kind: kind(frame, address), frame: *frame });
}

fn kind(frame: &Frame, address: u64) -> Kind {
    match frame.vector {
        DIVIDE_ERROR | X87 | SIMD => Kind::Arithmetic,
        DEBUG | BREAKPOINT => Kind::Trap,
        INVALID_OPCODE => Kind::IllegalInstruction,
        PAGE_FAULT => page_fault(frame, address),
        DOUBLE_FAULT if memory::stack::is_guard(frame.rsp) => Kind::StackOverflow,
        STACK_SEGMENT | GENERAL_PROTECTION => Kind::Protection,
        ALIGNMENT => Kind::Alignment,
        vector => Kind::Other(vector),
    }
}

fn page_fault(frame: &Frame, address: u64) -> Kind {
    if memory::stack::is_guard(address) {
        Kind::StackOverflow
    } else if memory::stack::contains(address) && frame.error & PRESENT == 0 {
        Kind::NoMemoryForStack
    } else if frame.error & FETCH != 0 {
        Kind::Execute(address)
    } else if frame.error & WRITE != 0 {
        Kind::Write(address)
    } else {
        Kind::Read(address)
    }
}
