//! UDP sockets.
//!
//! smoltcp's UDP sockets are not used: they have buffers of fixed size. These hold only received datagrams.

mod calls;
mod groups;
pub(crate) mod layer;
mod rx;
mod tx;
