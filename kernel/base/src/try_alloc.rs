//! Allocation that fails instead of ending the machine.
//!
//! Without memory, `Box::new`, `Arc::new`, `vec!` and `Vec::push` end the machine. Their counterparts that
//! fail are not stable, except `Vec::try_reserve`. This module builds on that, in safe code:
//!
//! | instead of | use |
//! | --- | --- |
//! | `Box::new` | [`TryBox::try_new`] |
//! | `Vec::push` | [`try_push`] |
//! | `to_vec` | [`try_to_vec`] |
//! | `Vec::extend_from_slice` | [`try_extend`] |
//! | `vec![value; count]` | [`try_vec`] |
//! | `Arc::new` | a parameter that is [`TryArc`], which hal implements |
//!
//! All of them return std's [`TryReserveError`], which converts to `ENOMEM` by `?`.

use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// A value on the heap.
///
/// The box contains an array of one value: a `Vec` becomes a boxed array without another allocation, whereas
/// a box of the value itself could only be made by `Box::new`.
pub struct TryBox<T>(Box<[T; 1]>);

impl<T> TryBox<T> {
    /// Moves a value to the heap.
    ///
    /// # Errors
    ///
    /// There is no memory.
    #[inline]
    pub fn try_new(value: T) -> Result<Self, TryReserveError> {
        let mut values = Vec::new();
        values.try_reserve_exact(1)?;
        values.push(value);
        match values.into_boxed_slice().try_into() {
            Ok(values) => Ok(Self(values)),
            // The slice has one value.
            Err(_) => unreachable!(),
        }
    }

    /// Takes the value out of the box, and frees the memory.
    #[inline]
    pub fn into_inner(boxed: Self) -> T {
        let [value] = *boxed.0;
        value
    }

    /// Returns the value, whose memory is never freed.
    #[inline]
    pub fn leak<'a>(boxed: Self) -> &'a mut T {
        let [value] = Box::leak(boxed.0);
        value
    }
}

impl<T> Deref for TryBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        let [value] = &*self.0;
        value
    }
}

impl<T> DerefMut for TryBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        let [value] = &mut *self.0;
        value
    }
}

impl<T: fmt::Debug> fmt::Debug for TryBox<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

/// Allocation of an [`Arc`] that can fail.
///
/// Code that needs it takes a type with this trait as a parameter: safe code cannot allocate an `Arc` without
/// a panic.
pub trait TryArc: 'static {
    /// Allocates an [`Arc`] of a value. Returns `None` without memory.
    fn arc<T>(value: T) -> Option<Arc<T>>;
}

/// Appends a value to a vector.
///
/// # Errors
///
/// There is no memory.
#[inline]
pub fn try_push<T>(values: &mut Vec<T>, value: T) -> Result<(), TryReserveError> {
    values.try_reserve(1)?;
    values.push(value);
    Ok(())
}

/// Appends a slice to a vector.
///
/// # Errors
///
/// There is no memory.
pub fn try_extend<T: Copy>(values: &mut Vec<T>, slice: &[T]) -> Result<(), TryReserveError> {
    values.try_reserve(slice.len())?;
    values.extend_from_slice(slice);
    Ok(())
}

/// Copies a slice to newly allocated memory.
///
/// # Errors
///
/// There is no memory.
pub fn try_to_vec<T: Copy>(slice: &[T]) -> Result<Vec<T>, TryReserveError> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(slice.len())?;
    copy.extend_from_slice(slice);
    Ok(copy)
}

/// Allocates a vector of `count` copies of a value.
///
/// # Errors
///
/// There is no memory.
pub fn try_vec<T: Copy>(value: T, count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut values = Vec::new();
    values.try_reserve_exact(count)?;
    values.resize(count, value);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::{TryBox, try_extend, try_push, try_to_vec, try_vec};

    #[test]
    fn try_box_has_its_value_until_it_is_taken() {
        let mut boxed = TryBox::try_new(7).unwrap();
        *boxed += 1;
        assert_eq!((*boxed, alloc::format!("{boxed:?}").as_str()), (8, "8"));
        assert_eq!(TryBox::into_inner(boxed), 8);
        assert_eq!(size_of::<Option<TryBox<u64>>>(), size_of::<usize>());
    }

    #[test]
    fn request_of_more_than_the_address_space_fails() {
        assert!(try_vec(0u64, usize::MAX / 4).is_err());
    }

    #[test]
    fn vectors_have_the_values_and_no_more_memory() {
        let mut values = try_to_vec(&[1, 2]).unwrap();
        assert_eq!(values.capacity(), 2);
        try_push(&mut values, 3).unwrap();
        assert_eq!(values, [1, 2, 3]);
        try_extend(&mut values, &[4, 5]).unwrap();
        assert_eq!(values, [1, 2, 3, 4, 5]);
        assert_eq!(try_vec(5, 3).unwrap(), [5; 3]);
    }
}
