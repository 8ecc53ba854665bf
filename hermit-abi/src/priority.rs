//! Thread priorities.

#![expect(unsafe_code, reason = "wraps two functions of the kernel")]

use crate::calls::thread::{sys_get_priority, sys_set_priority};
use crate::types::scalar::Tid;

/// How many priorities there are.
pub const NO_PRIORITIES: usize = 31;

/// The priority of threads that may wait.
pub const LOW_PRIO: Priority = Priority::from(1);
/// The priority of threads unless said otherwise.
pub const NORMAL_PRIO: Priority = Priority::from(2);
/// The priority of threads that should not wait.
pub const HIGH_PRIO: Priority = Priority::from(3);

/// A thread's priority: a thread of a higher one that is ready runs before the others.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Priority(u8);

impl Priority {
    /// The priority as a number.
    pub const fn into(self) -> u8 {
        self.0
    }

    /// The priority of number `number`, which should be less than [`NO_PRIORITIES`].
    pub const fn from(number: u8) -> Self {
        Self(number)
    }
}

/// The priority of the calling thread.
///
/// # Safety
///
/// Only within the kernel's own image: the function must be there.
#[inline]
pub unsafe fn get_priority() -> Priority {
    // SAFETY: it takes nothing and only reads; the caller has the kernel in its image.
    Priority::from(unsafe { sys_get_priority() })
}

/// Gives thread `id` the priority `priority`; nothing happens if there is no such thread.
///
/// # Safety
///
/// Only within the kernel's own image: the function must be there.
#[inline]
pub unsafe fn set_priority(id: Tid, priority: Priority) {
    // SAFETY: plain numbers, which the kernel checks; the caller has the kernel in its image.
    unsafe { sys_set_priority(id, priority.into()) }
}

#[cfg(test)]
mod tests {
    use super::{HIGH_PRIO, LOW_PRIO, NORMAL_PRIO, Priority};

    #[test]
    fn named_priorities_are_in_order() {
        assert_eq!([LOW_PRIO, NORMAL_PRIO, HIGH_PRIO].map(Priority::into), [1, 2, 3]);
        assert!(LOW_PRIO < NORMAL_PRIO && NORMAL_PRIO < HIGH_PRIO);
    }
}
