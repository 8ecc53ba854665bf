//! The trait of locks that run an action.
//!
//! Code without hardware takes locks as parameters. Mostly that is a raw lock (`lock_api::RawMutex`), such as
//! hal's spinlock, around which `lock_api::Mutex` has guards. [`Lock`] is for code whose callers must not
//! keep a guard. Which locks the kernel has, and in which order they may be taken, is in one table:
//! `docs/architecture.md`, Locks.

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
