//! Interrupt lines, and the software interrupt mask.
//!
//! The processor accepts interrupts while programs and the kernel run: masking does not clear its interrupt
//! flag. Instead, it increments a counter of the CPU, the mask depth. The line of an interrupt that arrives
//! meanwhile becomes pending, and is handled when the depth is back at zero. This needs no privileged
//! instruction, so it is fast, and works where the kernel has no privilege.
//!
//! If another thread should run after an interrupt, the interrupt does not switch threads itself. It
//! redirects the interrupted thread to [`crate::arch::preempt`], which saves all registers and calls
//! [`preempt::PreemptHooks::preempted`]. There the thread switches to another one like any other kernel code.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch::trap::TrapFrame;
use crate::arch::{local, preempt};
use crate::cpu_local;
use crate::once::Once;
use crate::ops;
use crate::tlb;

/// Line of the CPU's timer. Lower numbers are the wired lines of devices.
pub const TIMER: u8 = 16;

/// Line of the reschedule IPI. A CPU sends it to make another CPU check that CPU's run queue.
pub const RESCHEDULE: u8 = 17;

/// Bit among the pending lines that stands for no line. While it is set, the last unmask checks if another
/// thread should run.
const PREEMPT: u8 = 18;

/// Bit among the pending lines that stands for no line. While it is set, the platform has deferred work to do
/// before a thread runs ([`ops::CpuControl::run_deferred`]). The work is unnecessary while the CPU stays
/// idle.
const DEFERRED: u8 = 27;

/// Mask with the bit [`DEFERRED`].
pub(crate) const DEFERRED_BIT: u32 = 1 << DEFERRED;

/// The lines of MSI vectors.
pub const MSI_LINES: Range<u8> = 19..27;

/// Unmasks a device line. Lines of MSI vectors are never masked.
pub fn enable_line(line: u8) {
    ops::irq_chip().enable_line(line);
}

/// Connects a global system interrupt, edge-triggered and active high, to a line of [`MSI_LINES`] on the
/// first CPU. Returns false if no interrupt controller has this interrupt.
#[must_use]
pub fn connect(interrupt: u32, line: u8) -> bool {
    MSI_LINES.contains(&line) && ops::irq_chip().connect(interrupt, line)
}

/// The kernel's interrupt handlers.
#[derive(Clone, Copy, Debug)]
pub struct Handlers {
    /// Called when a line was raised, with interrupts masked, on a stack of the kernel or of a thread. May
    /// call [`reschedule`].
    pub raised: fn(u8, &Masked),
    /// Called after [`reschedule`], as part of the running thread. May switch to another one.
    pub preempt: fn(&mut Masked),
}

static HANDLERS: Once<Handlers> = Once::new();

/// Sets the interrupt handlers. Only the first call has an effect.
pub fn set_handlers(handlers: Handlers) {
    HANDLERS.call_once(|| handlers);
}

/// Proof that interrupts are masked on this CPU, so that the thread stays on it.
///
/// An exclusive reference also proves that no [`MaskedLock`](crate::sync::MaskedLock) is held: such a lock
/// borrows this value. [`thread::switch`](crate::thread::switch) and [`wait`] take an exclusive reference.
/// They also check that the mask depth is one: it is higher while a [`SpinLock`](crate::sync::SpinLock) is
/// held.
#[derive(Debug)]
pub struct Masked(PhantomData<*const ()>);

impl Masked {
    /// Masks interrupts until the result is dropped.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        mask();
        Self(PhantomData)
    }

    /// Creates a proof for code that runs with interrupts already masked. Dropping it does not unmask.
    fn borrowed() -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(PhantomData))
    }

    /// Creates the proof for a new thread, which starts with interrupts masked once. Dropping it unmasks.
    ///
    /// # Panics
    ///
    /// If interrupts are not masked exactly once.
    pub(crate) fn inherited() -> Self {
        assert_depth();
        Self(PhantomData)
    }

    /// The number of this CPU.
    #[inline]
    #[must_use]
    pub fn cpu(&self) -> u32 {
        local::number()
    }
}

impl Default for Masked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Masked {
    #[inline]
    fn drop(&mut self) {
        unmask();
    }
}

/// Checks that interrupts are masked exactly once, as a switch to another thread requires.
///
/// # Panics
///
/// If interrupts are not masked, or masked more than once because a lock is held.
#[inline]
pub(crate) fn assert_depth() {
    assert!(local::is_masked_once(), "a lock is held, or interrupts are not masked");
}

/// Checks that interrupts are masked, in builds with debug assertions.
#[inline]
pub(crate) fn debug_assert_masked() {
    debug_assert!(local::mask_depth() != 0, "interrupts are not masked");
}

/// Masks interrupts on this CPU by incrementing the mask depth. Each call is undone by one call of
/// [`unmask`].
#[inline]
pub(crate) fn mask() {
    local::mask();
}

/// Decrements the mask depth. If it is then zero, handles the pending lines.
#[inline]
pub(crate) fn unmask() {
    preempt::unmask::<Hooks>();
}

/// Returns true if interrupts are unmasked: no spinlock is held, and no interrupt is being handled.
#[inline]
#[must_use]
pub fn are_unmasked() -> bool {
    local::mask_depth() == 0
}

/// The functions that [`crate::arch`] calls after the last unmask and on preemption.
enum Hooks {}

impl preempt::PreemptHooks for Hooks {
    extern "C" fn handle_pending() {
        loop {
            mask();
            Self::preempted();
            let header = &cpu_local::current().header;
            // Not `unmask`, which would call this function again.
            header.unmask();
            if header.pending() == 0 {
                return;
            }
        }
    }

    extern "C" fn preempted() {
        let mut masked = Masked::borrowed();
        loop {
            handle_pending();
            // The thread may have moved to another CPU in the last iteration, so this looks up the block
            // again.
            let local = cpu_local::current();
            if local.reschedule.swap(false, Relaxed)
                && let Some(handlers) = HANDLERS.get()
            {
                (handlers.preempt)(&mut masked);
            }
            // The caller calls this again as long as the mask says that a line is pending.
            let header = &cpu_local::current().header;
            header.settle();
            if header.pending() == 0 {
                return;
            }
        }
    }
}

fn handle_pending() {
    handle_pending_but(0);
}

/// Handles the pending lines except those in `kept`, which stay pending.
fn handle_pending_but(kept: u32) {
    let header = &cpu_local::current().header;
    while header.pending() & !kept != 0 {
        let lines = header.take_pending(kept);
        for line in (0..u32::BITS).filter(|line| lines & 1 << line != 0) {
            handle(line.to_le_bytes()[0]);
        }
    }
}

fn handle(line: u8) {
    if line == PREEMPT {
        return;
    }
    if line == DEFERRED {
        return ops::cpu().run_deferred();
    }
    cpu_local::current().woken.store(true, Relaxed);
    if line < TIMER {
        ops::irq_chip().begin(line);
    }
    if let Some(handlers) = HANDLERS.get() {
        (handlers.raised)(line, &Masked::borrowed());
    }
    if line < TIMER {
        ops::irq_chip().finish(line);
    }
}

/// Requests that [`Handlers::preempt`] be called as soon as interrupts are unmasked.
pub fn reschedule(_masked: &Masked) {
    let local = cpu_local::current();
    local.reschedule.store(true, Relaxed);
    local.header.set_pending(1 << PREEMPT);
}

/// Called on an interrupt, before it is acknowledged. The processor accepts no other interrupt meanwhile.
pub(crate) fn raised(line: u8, frame: &mut TrapFrame) {
    if !ops::irq_chip().acknowledge(line) {
        return;
    }
    raised_lines(1 << line, frame);
}

/// Called on an interrupt that raised lines, one bit each, and has been acknowledged. The processor accepts
/// no other interrupt meanwhile.
pub(crate) fn raised_lines(lines: u32, frame: &mut TrapFrame) {
    let header = &cpu_local::current().header;
    header.set_pending(lines);
    if header.mask_depth() == 0 {
        // Interrupts are not masked while the CPU is idle.
        tlb::leave_idle();
        header.mask();
        leave(frame);
    }
}

/// Makes lines pending, one bit each: they are handled on the last unmask.
pub(crate) fn set_pending(lines: u32) {
    cpu_local::current().header.set_pending(lines);
}

/// Masks interrupts at the start of an exception.
pub(crate) fn enter_exception() {
    mask();
}

/// Undoes the mask of [`enter_exception`], before the return to the interrupted code.
pub(crate) fn leave_exception(frame: &mut TrapFrame) {
    let header = &cpu_local::current().header;
    if header.mask_depth() == 1 {
        leave(frame);
    } else {
        header.unmask();
    }
}

/// Handles the pending lines and unmasks, or redirects the interrupted thread to the preemption code.
/// Interrupts are masked once, and the processor accepts none until the interrupted code continues.
fn leave(frame: &mut TrapFrame) {
    handle_pending();
    let local = cpu_local::current();
    if local.reschedule.load(Relaxed) {
        // Interrupts stay masked until the thread has saved where it resumes.
        local.header.resume.store(frame.redirect(preempt::entry::<Hooks>()), Relaxed);
    } else {
        local.header.unmask();
    }
}

/// Accepts and unmasks interrupts on this CPU for the first time.
pub(crate) fn enable() {
    ops::cpu().enable_interrupts();
    unmask();
}

/// Returns once an interrupt has been handled on this CPU since the last call, and waits for an interrupt
/// until then. May return early. Interrupts must be masked once. They are unmasked during the wait.
pub fn wait(masked: &mut Masked) {
    let _ = masked;
    assert_depth();
    let local = cpu_local::current();
    local.header.unmask();
    let is_woken = || local.woken.load(Relaxed) || local.header.pending() & !DEFERRED_BIT != 0;
    ops::cpu().wait_unless(&is_woken);
    mask();
    handle_pending_but(DEFERRED_BIT);
    local.woken.store(false, Relaxed);
}
