//! Dispatch of exceptions and interrupts: page faults of stacks, faults of programs, interrupt lines.

use crate::arch::trap::{Exception, FaultAccess, TrapFrame, TrapHandler};
use crate::fault::{self, Fault, FaultKind};
use crate::interrupts::{self, RESCHEDULE, TIMER};
use crate::memory::{lazy, stack};
use crate::ops;
use crate::stop;
use crate::tlb;

/// The kernel's [`TrapHandler`].
#[derive(Debug)]
pub(crate) enum Traps {}

impl TrapHandler for Traps {
    fn device(line: u8, frame: &mut TrapFrame) {
        interrupts::raised(line, frame);
    }

    fn timer(frame: &mut TrapFrame) {
        interrupts::raised(TIMER, frame);
    }

    fn reschedule(frame: &mut TrapFrame) {
        interrupts::raised(RESCHEDULE, frame);
    }

    fn flush_tlb() {
        ops::irq_chip().acknowledge(RESCHEDULE);
        tlb::flush_if_requested();
    }

    fn is_stopped() -> bool {
        stop::is_stopped()
    }

    fn exception(exception: Exception, frame: &mut TrapFrame) {
        interrupts::enter_exception();
        handle(exception, frame);
        interrupts::leave_exception(frame);
    }
}

/// Handles an exception, with interrupts masked. Returns only if the interrupted code can continue.
fn handle(exception: Exception, frame: &TrapFrame) {
    let is_handled = match exception {
        Exception::SingleStep => true,
        Exception::Page { address, access, is_present: false } if access != FaultAccess::Execute => {
            stack::extend(address).is_ok() || lazy::touch(address)
        }
        _ => false,
    };
    if !is_handled {
        fault::report(&Fault { kind: kind(exception, frame), frame: *frame });
    }
}

fn kind(exception: Exception, frame: &TrapFrame) -> FaultKind {
    match exception {
        Exception::Page { address, access, is_present } => page_fault(address, access, is_present),
        Exception::Double if stack::is_guard(frame.stack_pointer()) => FaultKind::StackOverflow,
        Exception::Arithmetic => FaultKind::Arithmetic,
        Exception::IllegalInstruction => FaultKind::IllegalInstruction,
        Exception::Protection => FaultKind::Protection,
        Exception::Alignment => FaultKind::Alignment,
        Exception::Breakpoint | Exception::SingleStep => FaultKind::Trap,
        Exception::Double => FaultKind::Other(frame.vector()),
        Exception::Other(vector) => FaultKind::Other(vector),
    }
}

fn page_fault(address: u64, access: FaultAccess, is_present: bool) -> FaultKind {
    if stack::is_guard(address) {
        return FaultKind::StackOverflow;
    }
    if stack::contains(address) && !is_present {
        return FaultKind::NoMemoryForStack;
    }
    if lazy::contains(address) && !is_present {
        return FaultKind::NoMemory;
    }
    match access {
        FaultAccess::Execute => FaultKind::Execute(address),
        FaultAccess::Write => FaultKind::Write(address),
        FaultAccess::Read => FaultKind::Read(address),
    }
}
