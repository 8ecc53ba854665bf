//! Interrupt dispatch: from an interrupt line to its handlers.
//!
//! The timer's line and the reschedule IPI go to the scheduler's CPU. All other lines go to the handlers that
//! drivers have registered; a line without one is that of the platform's own console, and goes to the default
//! handler.

use core::iter;

use hermit_hal::interrupts::{self, Handlers, Masked, RESCHEDULE, TIMER};
use hermit_hal::memory::{self, OutOfMemory};
use hermit_hal::once::Once;
use hermit_hal::sync::SpinLock;

use crate::threads::cpu;

/// Handler of an interrupt line.
pub(crate) trait InterruptHandler: Sync + 'static {
    /// Handles an interrupt of the line, with interrupts masked. Devices share lines, so another device may
    /// have raised it.
    fn interrupt(&self);
}

/// A registered handler. It links the others, so that nothing but its own memory can be missing.
struct Registered<H: ?Sized = dyn InterruptHandler> {
    line: u8,
    /// The handler that was registered before this one, once this one is in the list.
    next: Once<Option<&'static Registered>>,
    handler: H,
}

/// The handler that was registered last; several handlers may share a line.
static LAST: SpinLock<Option<&'static Registered>> = SpinLock::new(None);

/// Handler of lines for which none is registered.
static DEFAULT: Once<&'static dyn InterruptHandler> = Once::new();

/// Starts dispatching. The calling CPU must be known to the scheduler (`threads::cpu::adopt`).
pub(crate) fn init() {
    interrupts::set_handlers(Handlers { raised, preempt: cpu::preempt });
}

/// Registers the handler of a line permanently, and unmasks the line at the interrupt controller. Without
/// memory the handler is dropped.
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

/// Registers the handler of lines for which none is registered; the first call counts.
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
    // Handlers wake threads, so they are called without the lock.
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
