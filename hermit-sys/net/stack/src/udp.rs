//! UDP sockets.
//!
//! smoltcp's UDP sockets have buffers of fixed size, and are not used. The queues here contain only the
//! received datagrams.

mod calls;
mod groups;
pub(crate) mod layer;
mod rx;
mod tx;
