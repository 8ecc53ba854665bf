//! Exceptions and interrupts: the meaning of their vectors and error codes.

use x86_64::registers::control::Cr2;

use super::cpu;

pub use super::trap_frame::TrapFrame;

const DIVIDE_ERROR: u64 = 0;
const DEBUG: u64 = 1;
pub(super) const NON_MASKABLE: u64 = 2;
const BREAKPOINT: u64 = 3;
const INVALID_OPCODE: u64 = 6;
pub(super) const DOUBLE_FAULT: u64 = 8;
const STACK_SEGMENT: u64 = 12;
const GENERAL_PROTECTION: u64 = 13;
const PAGE_FAULT: u64 = 14;
const X87: u64 = 16;
const ALIGNMENT: u64 = 17;
pub(super) const MACHINE_CHECK: u64 = 18;
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

/// The kernel's handlers of exceptions and interrupts. The type is a parameter of [`handle`], so that the
/// entry stubs call the functions directly. All of them run on an interrupt stack with the interrupt flag
/// clear.
pub(crate) trait TrapHandler {
    /// A device raised an interrupt line.
    fn device(line: u8, frame: &mut TrapFrame);

    /// The timer of this CPU expired.
    fn timer(frame: &mut TrapFrame);

    /// Another CPU sent the reschedule IPI.
    fn reschedule(frame: &mut TrapFrame);

    /// Another CPU sent the TLB shootdown IPI.
    fn flush_tlb();

    /// Returns true if another CPU sent a non-maskable interrupt to stop this one.
    fn is_stopped() -> bool;

    /// An exception was raised. Returns only if the interrupted code can continue.
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
        /// True if there is a page at the address, which does not allow the access.
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

/// Returns the meaning of the exception in `frame`. `address` is the accessed address if the exception is a
/// page fault (CR2).
pub(crate) fn decode(frame: &mut TrapFrame, address: u64) -> Exception {
    match frame.vector {
        DEBUG if frame.rflags & TRAP_FLAG != 0 => {
            // A debugger outside of the machine sets this flag to single-step. The saved frame has the flag,
            // too, if a step ended in an interrupt, or in a page fault that makes a stack grow. The debugger
            // may be gone when the frame is restored, so this clears the flag.
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
