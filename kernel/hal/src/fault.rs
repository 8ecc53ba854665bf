//! Faults: exceptions after which a program cannot continue.

use hermit_interface::exit::ABORTED;

use crate::memory::stack;
use crate::once::Once;
use crate::{ops, stop};

pub use crate::arch::trap::TrapFrame;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A read of this address, which is not mapped.
    Read(u64),
    /// A write to this address, which is not mapped or read-only.
    Write(u64),
    /// Execution of this address, which holds no code.
    Execute(u64),
    /// A stack overflow: an access to a guard page.
    StackOverflow,
    /// An access to a page of a stack for which there is no memory.
    NoMemoryForStack,
    /// An access to a page of a heap block for which there is no memory. The block has grown beyond the free
    /// memory.
    NoMemory,
    /// An access to this address, for which the host has no memory.
    NoHostMemory(u64),
    /// An instruction that the processor does not have.
    IllegalInstruction,
    /// A division by zero, or one whose result does not fit, or an unmasked floating-point exception.
    Arithmetic,
    /// An address that is not canonical, or another violation of the processor's rules.
    Protection,
    /// A misaligned access.
    Alignment,
    /// A breakpoint without a debugger.
    Trap,
    /// Another exception, by its vector.
    Other(u64),
}

/// An exception and the state in which it happened.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The registers.
    pub frame: TrapFrame,
}

/// The kernel's response to a fault: reports it and ends the machine.
pub type FaultHandler = fn(&Fault) -> !;

static HANDLER: Once<FaultHandler> = Once::new();

/// Sets the handler of faults. Only the first call has an effect.
pub fn set_handler(handler: FaultHandler) {
    HANDLER.call_once(|| handler);
}

/// Passes a fault to the handler. A fault of the handler itself ends the machine at once.
pub(crate) fn report(fault: &Fault) -> ! {
    match HANDLER.get() {
        Some(handler) if stop::stop_others() => handler(fault),
        _ => ops::power().exit(ABORTED),
    }
}

/// Reads a word of a stack. Returns `None` if the address is not in the mapped part of a stack.
pub fn stack_word(address: u64) -> Option<u64> {
    stack::read_frame(address).map(|(word, _)| word)
}

/// Reads a frame record: the caller's frame pointer, or 0 if there is no caller, and the return address.
/// Returns `None` if the record is not in the mapped part of a stack.
pub fn frame_record(frame_pointer: u64) -> Option<(u64, u64)> {
    // Frames of callers are at higher addresses.
    let caller = |next| if next > frame_pointer { next } else { 0 };
    stack::read_frame(frame_pointer).map(|(next, return_address)| (caller(next), return_address))
}
