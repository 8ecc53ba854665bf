//! Interrupt dispatch: from an interrupt line to its handlers.
//!
//! The timer's line and the reschedule IPI go to the scheduler's CPU. All other lines go to the handlers that drivers
//! have registered; a line without one is that of the platform's own console, and goes to the default handler.

use alloc::vec::Vec;

use hermit_hal::interrupts::{self, Handlers, Masked, RESCHEDULE, TIMER};
use hermit_hal::memory::{self, OutOfMemory};
use hermit_hal::sync::SpinLock;
use spin::Once;

use crate::threads::cpu;

/// Handler of an interrupt line.
pub(crate) trait InterruptHandler: Sync {
    /// Handles an interrupt of the line, with interrupts masked. Devices share lines, so another device may have raised
    /// it.
    fn interrupt(&self);
}

/// Registered handlers with their lines; several handlers may share a line.
static HANDLERS: SpinLock<Vec<(u8, &'static dyn InterruptHandler)>> = SpinLock::new(Vec::new());

/// Handler of lines for which none is registered.
static DEFAULT: Once<&'static dyn InterruptHandler> = Once::new();

/// Starts dispatching. The calling CPU must be known to the scheduler (`threads::cpu::adopt`).
pub(crate) fn init() {
    interrupts::set_handlers(Handlers { raised, preempt: cpu::preempt });
}

/// Registers the handler of a line, and unmasks the line at the interrupt controller.
pub(crate) fn register(line: u8, handler: &'static dyn InterruptHandler) -> Result<(), OutOfMemory> {
    let mut handlers = HANDLERS.lock();
    handlers.try_reserve(1).map_err(|_| OutOfMemory)?;
    handlers.push((line, handler));
    drop(handlers);
    // MSI vectors, which are above the timer's line, have no mask at the interrupt controller.
    if line < TIMER {
        interrupts::enable_line(line);
    }
    Ok(())
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
    // Handlers wake threads, so each is called without the lock.
    let entry = |index| HANDLERS.lock().get(index).copied();
    let mut is_handled = false;
    for (_, handler) in (0..).map_while(entry).filter(|(other, _)| *other == line) {
        handler.interrupt();
        is_handled = true;
    }
    if !is_handled && let Some(default) = DEFAULT.get() {
        default.interrupt();
    }
}
