//! What a guest sees besides processors and memory.

pub mod virtio;
