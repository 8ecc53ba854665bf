//! Allocation that can fail.

pub(crate) use hermit_hal::try_alloc::{arc, arc_with, boxed};
