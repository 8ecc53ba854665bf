//! The types of images and host tests.

#[cfg(feature = "alloc")]
pub use alloc::sync::Arc;
pub use core::hint::spin_loop;
pub use core::sync::atomic;
#[cfg(feature = "lock")]
pub use lock_api::Mutex;

/// The standard library's cell with the interface of loom's.
#[derive(Debug)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// Creates a cell.
    #[inline]
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Calls `access` with a pointer. `access`, or the holder of its result, only reads through it.
    #[inline]
    pub fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get())
    }

    /// Calls `access` with a pointer, through which only `access` reads and writes.
    #[inline]
    pub fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// A point at which the models may switch threads. Outside of the models it takes neither memory nor time.
#[derive(Debug, Default)]
pub struct SwitchPoint;

impl SwitchPoint {
    /// Creates a point.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self
    }

    /// Passes the point.
    #[inline]
    pub const fn pass(&self) {}
}

/// Defines a function that is `const`, except in the models.
#[macro_export]
macro_rules! const_fn {
    ($($function:tt)*) => { $($function)* };
}

/// Defines an array of `$count` values of a constant expression, which is no constant in the models.
#[macro_export]
macro_rules! const_array {
    ($value:expr; $count:expr) => {
        [const { $value }; $count]
    };
}
