//! Interrupt dispatch: calls the handlers of an interrupt line.
//!
//! The timer's line and the reschedule IPI are handled by the scheduler's CPU state. All other lines go to
//! the handlers that drivers have registered. A line without a handler belongs to the platform's own console,
//! and goes to the default handler.

use core::iter;

use hermit_hal::interrupts::{self, Handlers, Masked, RESCHEDULE, TIMER};
use hermit_hal::memory::{self, OutOfMemory};
use hermit_hal::once::Once;
use hermit_hal::sync::SpinLock;

use crate::threads::cpu;

/// Handler of an interrupt line.
pub(crate) trait InterruptHandler: Sync + 'static {
    /// Handles an interrupt of the line. Interrupts are masked. Several devices may share the line, so
    /// another device may have raised it.
    fn interrupt(&self);
}

/// A registered handler. The handlers form a linked list, so that registering one needs no memory except its
/// own.
struct Registered<H: ?Sized = dyn InterruptHandler> {
    line: u8,
    /// The handler that was registered before this one. It is set when this handler is added to the list.
    next: Once<Option<&'static Registered>>,
    handler: H,
}

/// The handler that was registered last: the head of the list. Several handlers may share a line.
static LAST: SpinLock<Option<&'static Registered>> = SpinLock::new(None);

/// Handler of lines that have no registered handler.
static DEFAULT: Once<&'static dyn InterruptHandler> = Once::new();

/// Starts dispatching. The calling CPU must be known to the scheduler (`threads::cpu::adopt`).
pub(crate) fn init() {
    interrupts::set_handlers(Handlers { raised, preempt: cpu::preempt });
}

/// Registers the handler of a line permanently, and unmasks the line at the interrupt controller. Without
/// memory, drops the handler.
pub(crate) fn register<H: InterruptHandler>(line: u8, handler: H) -> Result<&'static H, OutOfMemory> {
    let registered = memory::leak(Registered { line, next: Once::new(), handler }).ok_or(OutOfMemory)?;
    let mut last = LAST.lock();
    registered.next.call_once(|| *last);
    *last = Some(registered);
    drop(last);
    // MSI vectors, which are above the timer's line, have no mask at the interrupt controller.
    if line < TIMER {
        interrupts::enable_line(line);
    }
    Ok(&registered.handler)
}

/// Sets the handler of lines that have no registered handler. Later calls have no effect.
pub(crate) fn register_default(handler: &'static dyn InterruptHandler) {
    DEFAULT.call_once(|| handler);
}

fn raised(line: u8, masked: &Masked) {
    match line {
        TIMER => cpu::timer_interrupt(masked),
        RESCHEDULE => {
            memory::drain_if_requested(masked);
            cpu::reschedule_interrupt(masked);
        }
        _ => device_interrupt(line),
    }
}

/// Calls all handlers of a line.
fn device_interrupt(line: u8) {
    // The lock is not held while handlers run, because handlers wake threads.
    let last = *LAST.lock();
    let registered = iter::successors(last, |registered| registered.next.get().copied().flatten());
    let mut is_handled = false;
    for registered in registered.filter(|registered| registered.line == line) {
        registered.handler.interrupt();
        is_handled = true;
    }
    if !is_handled && let Some(default) = DEFAULT.get() {
        default.interrupt();
    }
}
