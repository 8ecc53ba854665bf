//! Whole stacks against each other.

mod close;
mod connect;
mod stream;
