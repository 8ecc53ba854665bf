//! Where threads stand, and switching between them.

use core::sync::atomic::Ordering::Relaxed;

use crate::arch::context::Context;
use crate::arch::local;
use crate::interrupts::{self, Masked};
use crate::memory::{OutOfMemory, Stack, ThreadLocals};
use crate::sync::SpinLock;

/// A thread as the processor sees it: its stack, its thread-local variables, and where it stands.
///
/// What it owns stays when the thread ends, so that the next one that starts here needs neither a new stack nor new
/// variables.
#[derive(Debug)]
pub struct Thread {
    context: Context,
    resources: SpinLock<Option<(Stack, ThreadLocals)>>,
}

impl Default for Thread {
    fn default() -> Self {
        Self::new()
    }
}

impl Thread {
    /// A thread that does not run and has no stack.
    #[must_use]
    pub const fn new() -> Self {
        Self { context: Context::new(), resources: SpinLock::new(None) }
    }

    /// Makes `self` stand for what this CPU has been doing since it was started.
    ///
    /// # Panics
    ///
    /// If the CPU has such a thread already, or this one has been used.
    pub fn adopt_cpu(&'static self, masked: &Masked) {
        let _ = masked;
        let local = local::current();
        let free = local.thread.load(Relaxed).is_null() && self.context.is_empty();
        assert!(free, "a CPU has one thread of its own");
        self.context.adopt();
        local.thread.store((&raw const *self).cast_mut(), Relaxed);
    }

    /// Whether a CPU runs it, or is about to leave it.
    #[inline]
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.context.is_running()
    }

    /// The size of its stack in bytes; 0 if it has none.
    #[must_use]
    pub fn stack_size(&self) -> usize {
        self.resources.lock().as_ref().map_or(0, |(stack, _)| stack.size())
    }

    /// Prepares the thread so that it starts with `function` when it is first switched to, with interrupts masked once.
    /// A stack that it has and that is large enough is used again.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    ///
    /// # Panics
    ///
    /// If it is a thread that has begun and not ended.
    pub fn prepare(
        &'static self,
        stack_size: usize,
        function: extern "C" fn() -> !,
    ) -> Result<(), OutOfMemory> {
        let mut resources = self.resources.lock();
        assert!(self.context.is_empty(), "the thread has begun already");
        let old = resources.take().filter(|(stack, _)| Stack::fits(stack.size(), stack_size));
        let (stack, locals) = match old {
            Some((stack, mut locals)) => {
                locals.reset();
                (stack, locals)
            }
            None => (Stack::new(stack_size)?, ThreadLocals::new()?),
        };
        // SAFETY: the stack's first page is mapped and it is this thread's; the lock is held, and the context is empty.
        unsafe { self.context.prepare(stack.top(), locals.pointer(), function) };
        *resources = Some((stack, locals));
        Ok(())
    }

    /// Gives back stack and variables of a thread that does not run. Nothing happens if it does.
    pub fn release(&'static self) {
        let mut resources = self.resources.lock();
        if self.context.is_empty() {
            let freed = resources.take();
            drop(resources);
            drop(freed);
        }
    }
}

/// Leaves the thread that runs for another one. Returns when somebody switches back, perhaps on another CPU.
///
/// # Panics
///
/// If `to` is not a thread that waits to be switched to, or a lock is held.
#[inline]
pub fn switch(masked: &Masked, to: &'static Thread) {
    leave(masked, to, false);
}

/// Ends the thread that runs, and goes on with another one. From then on the thread can be prepared again.
///
/// # Panics
///
/// As [`switch`].
pub fn finish(masked: &Masked, to: &'static Thread) -> ! {
    leave(masked, to, true);
    unreachable!("a thread goes on after its end")
}

#[inline]
fn leave(masked: &Masked, to: &'static Thread, over: bool) {
    let _ = masked;
    interrupts::assert_depth();
    let local = local::current();
    let from = local.thread.load(Relaxed);
    local.thread.store((&raw const *to).cast_mut(), Relaxed);
    // SAFETY: every CPU has a thread from when it was adopted on, threads live for ever, and this is the only place that
    // changes it: so it is the thread that runs this.
    let from = unsafe { from.as_ref() }.expect("the CPU has a thread");
    // SAFETY: as above; interrupts are masked once (checked).
    unsafe { from.context.switch(&to.context, over) };
}
