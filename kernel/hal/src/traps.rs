//! Dispatch of exceptions and interrupts: page faults of stacks, faults of programs, interrupt lines.

use crate::arch::trap::{Exception, FaultAccess, Frame, TrapHandler};
use crate::fault::{self, Fault, Kind};
use crate::interrupts::{self, RESCHEDULE, TIMER};
use crate::memory::stack;
use crate::ops;
use crate::tlb;

/// The kernel's [`TrapHandler`].
#[derive(Debug)]
pub(crate) enum Traps {}

impl TrapHandler for Traps {
    fn device(line: u8, frame: &mut Frame) {
        interrupts::raised(line, frame);
    }

    fn timer(frame: &mut Frame) {
        interrupts::raised(TIMER, frame);
    }

    fn reschedule(frame: &mut Frame) {
        interrupts::raised(RESCHEDULE, frame);
    }

    fn flush_tlb() {
        ops::irq_chip().acknowledge(RESCHEDULE);
        tlb::flush_if_requested();
    }

    fn is_stopped() -> bool {
        fault::is_stopped()
    }

    fn exception(exception: Exception, frame: &mut Frame) {
        interrupts::enter_exception();
        handle(exception, frame);
        interrupts::leave_exception(frame);
    }
}

/// Handles an exception, in which interrupts are masked. Returns if the interrupted code can continue.
fn handle(exception: Exception, frame: &Frame) {
    let is_handled = match exception {
        Exception::SingleStep => true,
        Exception::Page { address, access, is_present: false } if access != FaultAccess::Execute => {
            stack::extend(address).is_ok()
        }
        _ => false,
    };
    if !is_handled {
        fault::report(&Fault { kind: kind(exception, frame), frame: *frame });
    }
}

fn kind(exception: Exception, frame: &Frame) -> Kind {
    match exception {
        Exception::Page { address, access, is_present } => page_fault(address, access, is_present),
        Exception::Double if stack::is_guard(frame.stack_pointer()) => Kind::StackOverflow,
        Exception::Arithmetic => Kind::Arithmetic,
        Exception::IllegalInstruction => Kind::IllegalInstruction,
        Exception::Protection => Kind::Protection,
        Exception::Alignment => Kind::Alignment,
        Exception::Breakpoint | Exception::SingleStep => Kind::Trap,
        Exception::Double => Kind::Other(frame.vector()),
        Exception::Other(vector) => Kind::Other(vector),
    }
}

fn page_fault(address: u64, access: FaultAccess, is_present: bool) -> Kind {
    if stack::is_guard(address) {
        return Kind::StackOverflow;
    }
    if stack::contains(address) && !is_present {
        return Kind::NoMemoryForStack;
    }
    match access {
        FaultAccess::Execute => Kind::Execute(address),
        FaultAccess::Write => Kind::Write(address),
        FaultAccess::Read => Kind::Read(address),
    }
}
