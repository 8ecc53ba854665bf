//! A minimal, confined hypervisor for hermit images.

pub mod devices;
