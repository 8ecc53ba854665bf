//! Whole stacks against each other.

mod close;
mod connect;
mod listen;
mod stream;
mod udp;
