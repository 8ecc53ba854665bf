//! What the processor reports when a program goes wrong.

use core::sync::atomic::{AtomicU32, Ordering};

use spin::Once;

use crate::arch::local;
use crate::{exit, platform};
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
    /// There should be memory at this address, but the host has none.
    NoHostMemory(u64),
    /// An instruction that the processor does not have.
    IllegalInstruction,
    /// A division by zero, or one whose result does not fit, or an unmasked floating-point exception.
    Arithmetic,
    /// An address that is not canonical, or another violation of the processor's rules.
    Protection,
    /// A misaligned access.
    Alignment,
    /// A breakpoint with nobody to ask for it.
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
/// No CPU.
const NOBODY: u32 = u32::MAX;

/// The CPU that has stopped the others.
static STOPPED_BY: AtomicU32 = AtomicU32::new(NOBODY);

/// Says who handles faults; the first one counts.
pub fn set_handler(handler: Handler) {
    HANDLER.call_once(|| handler);
}

/// Hands a fault to the handler. A fault of the handler itself ends the machine at once.
pub(crate) fn report(fault: &Fault) -> ! {
    match HANDLER.get() {
        Some(handler) if stop_others() => handler(fault),
        _ => exit::exit(ABORTED),
    }
}

/// Stops all other CPUs for good, so that one can tell what went wrong. `false` if this CPU has done so already; if
/// another has, this one stops here.
pub fn stop_others() -> bool {
    let here = local::number();
    match STOPPED_BY.compare_exchange(NOBODY, here, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            platform::current().stop_others();
            true
        }
        Err(by) if by == here => false,
        Err(_) => platform::current().stop(),
    }
}

/// Whether another CPU stops this one.
pub(crate) fn is_stopped() -> bool {
    let by = STOPPED_BY.load(Ordering::Acquire);
    by != NOBODY && by != local::number()
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
