//! Whole stacks against each other.

mod close;
mod configure;
mod connect;
mod cost;
mod faults;
mod listen;
mod stream;
mod udp;
