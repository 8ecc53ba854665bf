//! Facts and services of the host, which no other module's types are needed for.

pub mod allocator;
pub(crate) mod cgroup;
pub(crate) mod descriptor_limit;
pub(crate) mod log;
pub(crate) mod random;
