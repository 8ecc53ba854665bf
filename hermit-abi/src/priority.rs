//! Thread priorities.

#![expect(unsafe_code, reason = "wraps two functions of the kernel")]

use crate::calls::thread::{sys_get_priority, sys_set_priority};
use crate::types::scalar::Tid;

/// Number of priorities.
pub const NO_PRIORITIES: usize = 31;

/// Priority of background threads.
pub const LOW_PRIO: Priority = Priority::from(1);
/// Default priority.
pub const NORMAL_PRIO: Priority = Priority::from(2);
/// Priority of threads that run before others.
pub const HIGH_PRIO: Priority = Priority::from(3);

/// Priority of a thread: ready threads of a higher priority run first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Priority(u8);

impl Priority {
    /// Returns the priority as a number.
    pub const fn into(self) -> u8 {
        self.0
    }

    /// Returns the priority with the number `number`, which should be less than [`NO_PRIORITIES`].
    pub const fn from(number: u8) -> Self {
        Self(number)
    }
}

/// Returns the priority of the calling thread.
///
/// # Safety
///
/// The program must be an image, which contains the kernel. Otherwise the symbol does not exist.
#[inline]
pub unsafe fn get_priority() -> Priority {
    // SAFETY: the function takes nothing and only reads; by the contract of this function it exists.
    Priority::from(unsafe { sys_get_priority() })
}

/// Sets the priority of thread `id`; ignored if there is no such thread.
///
/// # Safety
///
/// The program must be an image, which contains the kernel. Otherwise the symbol does not exist.
#[inline]
pub unsafe fn set_priority(id: Tid, priority: Priority) {
    // SAFETY: the kernel checks both numbers; by the contract of this function the symbol exists.
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
