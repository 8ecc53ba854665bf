//! An optional value on the heap, for state that most connections do not have.

use alloc::vec::Vec;

/// An optional value on the heap. The value is also missing if there was no memory for it.
#[derive(Debug)]
pub(crate) struct HeapOption<T>(Vec<T>);

impl<T> HeapOption<T> {
    pub(crate) const NONE: Self = Self(Vec::new());

    /// Moves a value to the heap; returns an empty option without memory.
    pub(crate) fn some(value: T) -> Self {
        let mut values = Vec::new();
        if values.try_reserve_exact(1).is_ok() {
            values.push(value);
        }
        Self(values)
    }

    #[inline]
    pub(crate) const fn is_some(&self) -> bool {
        !self.0.is_empty()
    }

    #[inline]
    pub(crate) fn as_ref(&self) -> Option<&T> {
        self.0.first()
    }

    #[inline]
    pub(crate) fn as_mut(&mut self) -> Option<&mut T> {
        self.0.first_mut()
    }

    /// Calls `action` with the value, if there is one.
    #[inline]
    pub(crate) fn with(&mut self, action: impl FnOnce(&mut T)) {
        if let Some(value) = self.as_mut() {
            action(value);
        }
    }

    /// Takes the value, and frees its memory.
    pub(crate) fn take(&mut self) -> Option<T> {
        core::mem::take(&mut self.0).pop()
    }
}

#[cfg(test)]
mod tests {
    use super::HeapOption;

    #[test]
    fn value_is_there_until_it_is_taken() {
        let mut option = HeapOption::some(7);
        assert!(option.is_some() && !HeapOption::<u8>::NONE.is_some());
        option.with(|value| *value += 1);
        assert_eq!(option.as_ref(), Some(&8));
        assert_eq!((option.take(), option.take()), (Some(8), None));
        assert_eq!((option.is_some(), option.as_mut()), (false, None));
    }
}
