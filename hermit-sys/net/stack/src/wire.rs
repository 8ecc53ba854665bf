//! Wire formats: parsing and writing of frames and packets, reassembly, and smoltcp's devices.

pub(crate) mod emit;
pub(crate) mod fragments;
pub(crate) mod packet;
pub(crate) mod smoltcp_device;
pub(crate) mod tcp;
