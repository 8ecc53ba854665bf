//! Frames and packets: what they say, how they are written, how they get in and out of smoltcp.

pub(crate) mod device;
pub(crate) mod emit;
pub(crate) mod fragments;
pub(crate) mod packet;
pub(crate) mod tcp;
