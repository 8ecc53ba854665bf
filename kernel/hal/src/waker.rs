//! Wakers of values that are never freed. Making and cloning one needs neither memory nor an atomic
//! operation.

use core::ptr;
use core::task::{RawWaker, RawWakerVTable, Waker};

/// A value that a waker of [`waker`] wakes.
pub trait StaticWake: Sync + 'static {
    /// Called by [`Waker::wake`], on any thread.
    fn wake(&'static self);
}

/// Creates a waker of `target`. All wakers of a target are equal ([`Waker::will_wake`]).
pub fn waker<T: StaticWake>(target: &'static T) -> Waker {
    // SAFETY: the functions of `raw` keep the contract of `RawWakerVTable`: they are safe to call on any
    // thread, as `StaticWake` is `Sync`, and need nothing but the pointer, which stays valid without a
    // reference count because it was made from a `&'static T`.
    unsafe { Waker::from_raw(raw::<T>(ptr::from_ref(target).cast())) }
}

/// The raw waker of the `T` at a pointer. Not inlined, so that all of them have a table of functions at one
/// address, by which `will_wake` compares them.
#[inline(never)]
fn raw<T: StaticWake>(target: *const ()) -> RawWaker {
    RawWaker::new(target, &RawWakerVTable::new(raw::<T>, wake::<T>, wake::<T>, |_| ()))
}

/// Wakes the `T` at a pointer.
///
/// # Safety
///
/// The pointer must be that of a [`waker`].
unsafe fn wake<T: StaticWake>(target: *const ()) {
    // SAFETY: `waker` has made the pointer from a `&'static T` (contract), and `T` is `Sync`, so that any
    // thread may use the reference.
    unsafe { &*target.cast::<T>() }.wake();
}

#[cfg(test)]
mod tests {
    use super::{StaticWake, waker};
    use core::sync::atomic::AtomicU32;
    use core::sync::atomic::Ordering::Relaxed;

    struct Target(AtomicU32);

    impl StaticWake for Target {
        fn wake(&'static self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn clones_wake_their_target_also_after_the_first_is_dropped() {
        static TARGETS: [Target; 2] = [const { Target(AtomicU32::new(0)) }; 2];
        let first = waker(&TARGETS[0]);
        let clone = first.clone();
        assert!(clone.will_wake(&waker(&TARGETS[0])) && !clone.will_wake(&waker(&TARGETS[1])));
        first.wake();
        clone.wake_by_ref();
        clone.wake();
        assert_eq!(TARGETS.each_ref().map(|target| target.0.load(Relaxed)), [3, 0]);
    }
}
