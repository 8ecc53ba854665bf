//! The CPUs of the machine.

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch::local;
use crate::interrupts::Masked;
use crate::{clock, platform};

/// How many there are, at least 1 and at most 64.
#[must_use]
pub fn count() -> u32 {
    platform::current().cpus()
}

/// Starts all but the first one; each calls `main` with its number, some time later, with interrupts masked once. To be
/// called once. A CPU for which there is no memory stays away.
pub fn start_others(main: fn(u32) -> !) {
    if count() > 1 {
        clock::share();
        platform::current().start_others(main);
    }
}

/// Raises [`crate::interrupts::KICK`] on another CPU.
pub fn kick(masked: &Masked, cpu: u32) {
    let _ = masked;
    platform::current().kick(cpu);
}

/// Something that each CPU has its own of. There can be one such thing.
#[derive(Debug)]
pub struct PerCpu<T: 'static> {
    /// So that no two have the same address, by which they are told apart.
    _identity: AtomicU8,
    value: PhantomData<&'static T>,
}

impl<T> Default for PerCpu<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PerCpu<T> {
    /// No CPU has it yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { _identity: AtomicU8::new(0), value: PhantomData }
    }

    fn identity(&'static self) -> *mut () {
        ptr::from_ref(self).cast_mut().cast()
    }
}

impl<T: Sync> PerCpu<T> {
    /// Says what this CPU's own is.
    ///
    /// # Panics
    ///
    /// If the CPU has one already.
    pub fn set(&'static self, masked: &Masked, value: &'static T) {
        let _ = masked;
        let local = local::current();
        assert!(local.owner.load(Relaxed).is_null(), "a CPU has one thing of its own");
        local.own.store(ptr::from_ref(value).cast_mut().cast(), Relaxed);
        local.owner.store(self.identity(), Relaxed);
    }

    /// What this CPU's own is, if that has been said.
    #[inline]
    pub fn get(&'static self, masked: &Masked) -> Option<&'static T> {
        let _ = masked;
        let local = local::current();
        if local.owner.load(Relaxed) != self.identity() {
            return None;
        }
        // SAFETY: `set` of this very object, and so with this type, stored a reference that lives for ever.
        unsafe { local.own.load(Relaxed).cast::<T>().as_ref() }
    }
}
