//! What the processor reports when a program goes wrong.

use core::sync::atomic::{AtomicBool, Ordering};

use spin::Once;

use crate::exit;
use hermit_interface::exit::ABORTED;

pub use crate::arch::trap::Frame;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read of this address, which is not mapped.
    Read(u64),
    /// A write to this address, which is not mapped or read-only.
    Write(u64),
    /// Execution of this address, which holds no code.
    Execute(u64),
    /// The stack has no room left.
    StackOverflow,
    /// The stack has room, but there is no memory for it.
    NoMemoryForStack,
    /// An instruction that the processor does not have.
    IllegalInstruction,
    /// A division by zero, or one whose result does not fit, or an unmasked floating-point exception.
    Arithmetic,
    /// An address that is not canonical, or another violation of the processor's rules.
    Protection,
    /// A misaligned access.
    Alignment,
    /// A breakpoint or a single step, with nobody to ask for it.
    Trap,
    /// Another exception, by its vector.
    Other(u64),
}

/// An exception and the state in which it happened.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What went wrong.
    pub kind: Kind,
    /// The registers.
    pub frame: Frame,
}

/// What the kernel does about a fault: report it and end the machine.
pub type Handler = fn(&Fault) -> !;

static HANDLER: Once<Handler> = Once::new();
static REPORTING: AtomicBool = AtomicBool::new(false);

/// Says who handles faults; the first one counts.
pub fn set_handler(handler: Handler) {
    HANDLER.call_once(|| handler);
}

/// Hands a fault to the handler. A fault of the handler itself ends the machine at once.
pub(crate) fn report(fault: &Fault) -> ! {
    match HANDLER.get() {
        Some(handler) if !REPORTING.swap(true, Ordering::Relaxed) => handler(fault),
        _ => exit::exit(ABORTED),
    }
}

/// The return addresses on the stack from frame pointer `rbp` on, as far as the frames lie on a stack.
pub fn backtrace(rbp: u64) -> impl Iterator<Item = u64> {
    let mut frame = rbp;
    core::iter::from_fn(move || {
        let (next, return_address) = crate::memory::stack::read_frame(frame)?;
        // Frames of callers lie higher.
        frame = if next > frame { next } else { 0 };
        (return_address != 0).then_some(return_address)
    })
}
