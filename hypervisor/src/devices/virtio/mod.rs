//! Virtio devices.

use std::fmt::Debug;

/// What raises an interrupt line.
pub trait Interrupt: Send + Sync + Debug {
    /// Raises it once.
    fn raise(&self);
}
