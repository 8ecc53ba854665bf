//! Whole stacks against each other.

mod close;
mod configure;
mod connect;
mod cost;
mod edge;
mod faults;
mod groups;
mod listen;
mod lost;
mod martians;
mod names;
mod routers;
mod stream;
mod syn_queue;
mod time_wait;
mod together;
mod udp;
