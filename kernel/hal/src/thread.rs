//! Threads as the processor sees them, and switching between them.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch::context::Context;
use crate::cpu_local::{self, NO_THREAD};
use crate::fallible::OutOfMemory;
use crate::interrupts::{self, Masked};
use crate::memory::{Stack, ThreadLocals};
use crate::sync::SpinLock;

/// A thread as the processor sees it: its stack, its thread-local variables, and its saved context.
///
/// The stack and the variables stay allocated when the thread ends, so that the next use of this value need
/// not allocate them.
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
    /// Creates a thread that does not run and has no stack.
    #[must_use]
    pub const fn new() -> Self {
        Self { context: Context::new(), resources: SpinLock::new(None) }
    }

    /// Makes this the running thread of the calling CPU. The thread then stands for the code that has run on
    /// this CPU since its start.
    ///
    /// # Panics
    ///
    /// If the CPU has a running thread already, or if this thread has been used before.
    pub fn adopt_cpu(&'static self, masked: &Masked) {
        let _ = masked;
        let local = cpu_local::current();
        let is_free = ptr::eq(local.current.load(Relaxed), &raw const NO_THREAD) && self.context.is_empty();
        assert!(is_free, "a CPU has one thread of its own");
        self.context.adopt();
        local.current.store((&raw const self.context).cast_mut(), Relaxed);
    }

    /// Returns true if a CPU runs the thread, or is about to leave it.
    #[inline]
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.context.is_running()
    }

    /// Size of the thread's stack in bytes; 0 if it has none.
    #[must_use]
    pub fn stack_size(&self) -> usize {
        self.resources.lock().as_ref().map_or(0, |(stack, _)| stack.size())
    }

    /// Prepares the thread to run `M` when it is first switched to. If it has a stack of the right size from
    /// an earlier use, keeps that.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    ///
    /// # Panics
    ///
    /// If the thread has been prepared and has not ended since.
    pub fn prepare<M: ThreadMain>(&'static self, stack_size: usize) -> Result<(), OutOfMemory> {
        let mut resources = self.resources.lock();
        assert!(self.context.is_empty(), "the thread has been prepared already");
        let (stack, locals) = match &mut *resources {
            Some((stack, locals)) if stack.fits(stack_size) => {
                locals.reset();
                (stack, locals)
            }
            other => {
                *other = None;
                let (stack, locals) = other.insert((Stack::new(stack_size)?, ThreadLocals::new()?));
                (stack, locals)
            }
        };
        // SAFETY: `Stack::new` maps the first page below the top, which is aligned to a page, and the stack
        // is owned by this thread. The context is empty (asserted), so no CPU runs on the stack; the lock
        // excludes a second `prepare`.
        unsafe { self.context.prepare(stack.top(), locals.pointer(), run::<M>) };
        Ok(())
    }

    /// Frees stack and variables of a thread that has ended. Has no effect on a thread that has not ended.
    pub fn release(&'static self) {
        let mut resources = self.resources.lock();
        if self.context.is_empty() {
            let freed = resources.take();
            drop(resources);
            drop(freed);
        }
    }
}

/// Switches from the running thread to another one. Returns when a CPU, perhaps another one, switches back.
///
/// # Panics
///
/// If `to` is not suspended, or a lock is held.
#[inline]
pub fn switch(masked: &mut Masked, to: &'static Thread) {
    leave::<false>(masked, to);
}

/// Code of a thread.
pub trait ThreadMain {
    /// Runs as the thread. The thread ends only when this returns: until then, other threads may have
    /// references to its stack, and afterwards the stack is reused. `masked` is the mask with which the
    /// thread starts. Returns a mask, and the thread that runs next.
    fn run(masked: Masked) -> (Masked, &'static Thread);
}

/// Entry function of threads.
///
/// # Panics
///
/// If the next thread is not suspended, or a lock is held.
extern "C" fn run<M: ThreadMain>() -> ! {
    let (mut masked, next) = M::run(Masked::inherited());
    leave::<true>(&mut masked, next);
    unreachable!("a thread that has ended was resumed")
}

#[inline]
fn leave<const ENDED: bool>(masked: &mut Masked, to: &'static Thread) {
    let _ = masked;
    interrupts::assert_depth();
    let from = cpu_local::replace_context(&to.context);
    // SAFETY: `CpuLocal::current` is either the address of the static `NO_THREAD`, or the address of a
    // context in a `&'static Thread`, stored by `adopt_cpu` or by an earlier call of this function. Both are
    // valid forever.
    let from = unsafe { &*from };
    // SAFETY: `adopt_cpu` and this function, which alone switch threads, keep `current` at the context of the
    // thread that runs on this CPU; before `adopt_cpu` it is a context that no thread has, and so is never
    // switched to. Interrupts are masked once (asserted).
    unsafe { from.switch::<ENDED>(&to.context) };
}
