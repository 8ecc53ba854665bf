//! Facts and services of the host. These modules need no types of other modules.

pub mod allocator;
pub(crate) mod cgroup;
pub(crate) mod descriptor_limit;
pub(crate) mod log;
pub(crate) mod random;
