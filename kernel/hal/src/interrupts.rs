//! Interrupts, and a mask for them that costs no privileged instruction.
//!
//! The processor's own interrupt flag stays set while programs and the kernel run. Masking counts up a number
//! that belongs to the CPU; an interrupt that arrives meanwhile is noted, and handled when the count is back at
//! zero. That is cheaper than `cli` and `sti`, and the same where the kernel has no right to those.
//!
//! When an interrupt finds that another thread should run, it does not switch by itself: it sends the interrupted
//! thread into [`preempted`], which saves what an interruption must save and then switches like any other code.

use core::arch::asm;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use spin::Once;

use crate::arch::local::{self, MASK_DEPTH, PENDING};
use crate::arch::preempt;
use crate::arch::trap::Frame;
use crate::platform;

/// The line of the CPU's timer. Lower numbers are lines of devices that exist as such.
pub const TIMER: u8 = 16;

/// The line by which a CPU is told to look at its queue of threads.
pub const KICK: u8 = 17;

/// No line: noted so that the last unmask looks whether another thread is to run.
const RESCHEDULE: u8 = 18;

/// No line: noted so that the platform does, before a thread runs, what would be in vain if the CPU had nothing to do.
const DEFERRED: u8 = 27;

/// The bit of that.
pub(crate) const DEFERRED_BIT: u32 = 1 << DEFERRED;

/// The lines that devices raise by messages ([`crate::devices::message`]).
pub const MESSAGES: Range<u8> = 19..27;

/// Lets a device's line through; those of messages always are.
pub fn enable_line(line: u8) {
    platform::current().enable_line(line);
}

/// What the kernel does about interrupts.
#[derive(Clone, Copy, Debug)]
pub struct Handlers {
    /// A line was raised. Runs on a stack of the kernel or on that of a thread, with interrupts masked, and may ask
    /// for [`reschedule`].
    pub raised: fn(u8, &Masked),
    /// Somebody has asked for [`reschedule`]. Runs as part of the thread, and may switch to another.
    pub preempt: fn(&Masked),
}

static HANDLERS: Once<Handlers> = Once::new();

/// Says who handles interrupts; the first one counts.
pub fn set_handlers(handlers: Handlers) {
    HANDLERS.call_once(|| handlers);
}

/// The proof that interrupts are masked on this CPU, and so that the thread stays on it.
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

    /// For code that runs with interrupts masked by somebody else.
    fn borrowed() -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(PhantomData))
    }

    /// The mask that a thread finds when it starts: it is its own from now on.
    ///
    /// # Panics
    ///
    /// If interrupts are not masked exactly once.
    #[must_use]
    pub fn inherited() -> Self {
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

/// Checks that interrupts are masked exactly once, as a switch to another thread needs it.
///
/// # Panics
///
/// If they are not: somebody holds a lock.
#[inline]
pub(crate) fn assert_depth() {
    assert!(local::mask_depth() == 1, "a lock is held, or interrupts are not masked");
}

/// Checks that interrupts are masked, in builds that check such things.
#[inline]
pub(crate) fn debug_assert_masked() {
    debug_assert!(local::mask_depth() != 0, "interrupts are not masked");
}

/// Masks interrupts on this CPU until [`unmask`] has been called as often.
#[inline]
pub(crate) fn mask() {
    // SAFETY: the GS base is that of a `Local`, whose depth this counts up; one instruction, so that the thread cannot
    // change the CPU in between.
    unsafe { asm!("inc dword ptr gs:[{depth}]", depth = const MASK_DEPTH, options(nostack)) };
}

/// Takes back one [`mask`], and handles what was noted if it was the last.
#[inline]
pub(crate) fn unmask() {
    // SAFETY: as in `mask`. If the thread changes the CPU before the comparison, `noted` finds nothing.
    unsafe {
        asm!(
            "dec dword ptr gs:[{depth}]",
            "jnz 2f",
            "cmp dword ptr gs:[{pending}], 0",
            "jne {noted}",
            "2:",
            depth = const MASK_DEPTH,
            pending = const PENDING,
            noted = label { noted() },
            options(nostack),
        );
    }
}

/// Handles what was noted, and keeps all registers, so that whoever unmasks need not save any for that rare case.
#[inline]
fn noted() {
    // SAFETY: the function keeps all registers; the stack is aligned.
    unsafe { asm!("call {noted}", noted = sym preempt::noted) };
}

/// Whether interrupts are let through.
pub(crate) fn are_unmasked() -> bool {
    local::mask_depth() == 0
}

/// Handles what was noted while interrupts were masked; they are no longer.
pub(crate) extern "C" fn handle_noted() {
    loop {
        mask();
        preempted();
        let local = local::current();
        // Not `unmask`, which would come here again.
        local.mask_depth.store(local.mask_depth.load(Relaxed) - 1, Relaxed);
        if local.pending.load(Relaxed) == 0 {
            return;
        }
    }
}

/// Handles the lines that were noted and switches to another thread if one is to run. Interrupts are masked once, and
/// the stack is the thread's.
pub(crate) extern "C" fn preempted() {
    let masked = Masked::borrowed();
    loop {
        handle_pending();
        // Perhaps on another CPU than a moment ago.
        let local = local::current();
        if local.reschedule.swap(false, Relaxed)
            && let Some(handlers) = HANDLERS.get()
        {
            (handlers.preempt)(&masked);
        }
        if local::current().pending.load(Relaxed) == 0 {
            return;
        }
    }
}

fn handle_pending() {
    handle_pending_but(0);
}

/// Handles the lines that were noted, but for those in a set: they stay noted.
fn handle_pending_but(kept: u32) {
    let local = local::current();
    while local.pending.load(Relaxed) & !kept != 0 {
        let lines = local.pending.fetch_and(kept, Relaxed) & !kept;
        for line in (0..u32::BITS).filter(|line| lines & 1 << line != 0) {
            handle(line.to_le_bytes()[0]);
        }
    }
}

fn handle(line: u8) {
    if line == RESCHEDULE {
        return;
    }
    if line == DEFERRED {
        return platform::current().deferred();
    }
    local::current().woken.store(true, Relaxed);
    if line < TIMER {
        platform::current().interrupt(line);
    }
    if let Some(handlers) = HANDLERS.get() {
        (handlers.raised)(line, &Masked::borrowed());
    }
    if line < TIMER {
        platform::current().finish(line);
    }
}

/// Asks that another thread run as soon as interrupts are no longer masked.
pub fn reschedule(_masked: &Masked) {
    let local = local::current();
    local.reschedule.store(true, Relaxed);
    local.pending.fetch_or(1 << RESCHEDULE, Relaxed);
}

/// A line was raised; the processor's interrupt flag is clear.
pub(crate) fn raised(line: u8, frame: &mut Frame) {
    if !platform::current().acknowledge(line) {
        return;
    }
    raised_lines(1 << line, frame);
}

/// Lines were raised, a bit each, and acknowledged; no interrupt comes until the interrupted code goes on.
pub(crate) fn raised_lines(lines: u32, frame: &mut Frame) {
    let local = local::current();
    local.pending.fetch_or(lines, Relaxed);
    if local.mask_depth.load(Relaxed) == 0 {
        local.mask_depth.store(1, Relaxed);
        leave(frame);
    }
}

/// Notes a line, which is handled on the last unmask.
pub(crate) fn note(lines: u32) {
    local::current().pending.fetch_or(lines, Relaxed);
}

/// Enters an exception, in which interrupts are masked.
pub(crate) fn enter_exception() {
    mask();
}

/// Leaves an exception to the interrupted code.
pub(crate) fn leave_exception(frame: &mut Frame) {
    let local = local::current();
    if local.mask_depth.load(Relaxed) == 1 {
        leave(frame);
    } else {
        local.mask_depth.store(local.mask_depth.load(Relaxed) - 1, Relaxed);
    }
}

/// Handles what came meanwhile and returns to the interrupted code, or sends it to let another thread run. The
/// processor's interrupt flag is clear, and interrupts are masked once.
fn leave(frame: &mut Frame) {
    handle_pending();
    let local = local::current();
    if local.reschedule.load(Relaxed) {
        // It stays masked until the thread has saved where it goes on.
        local.resume.store(frame.rip, Relaxed);
        frame.rip = preempt::entry();
    } else {
        local.mask_depth.store(0, Relaxed);
    }
}

/// Lets interrupts in for the first time.
pub(crate) fn enable() {
    platform::current().enable_interrupts();
    unmask();
}

/// Waits until an interrupt has been handled since the last call. May return for no reason. Interrupts must be masked
/// once; meanwhile they are not.
pub fn wait(masked: &Masked) {
    let _ = masked;
    assert_depth();
    let local = local::current();
    local.mask_depth.store(0, Relaxed);
    let is_woken = || local.woken.load(Relaxed) || local.pending.load(Relaxed) & !DEFERRED_BIT != 0;
    platform::current().wait_unless(&is_woken);
    mask();
    handle_pending_but(DEFERRED_BIT);
    local.woken.store(false, Relaxed);
}
