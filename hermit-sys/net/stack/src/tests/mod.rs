//! Whole stacks against each other.

mod close;
mod configure;
mod connect;
mod listen;
mod stream;
mod udp;
