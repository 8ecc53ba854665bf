//! The trait of locks that run an action.

/// A lock around a value.
///
/// The lock is held only while an action runs, so that its holder cannot keep a guard across a switch to
/// another thread. Code that uses such locks takes their type as a parameter: the kernel passes a
/// spinlock, tests pass a lock of the host, and models one of loom's.
pub trait Lock<T>: Sync {
    /// Calls `action` with the locked value.
    fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R;
}

impl<L: lock_api::RawMutex + Sync, T: Send> Lock<T> for lock_api::Mutex<L, T> {
    #[inline]
    fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        action(&mut self.lock())
    }
}
