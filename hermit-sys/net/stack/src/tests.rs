//! Tests of complete stacks on a simulated wire.

mod close;
mod coalescing;
mod configure;
mod connect;
mod cost;
mod dns;
mod faults;
mod fragments;
mod groups;
mod listen;
mod local;
mod martians;
mod memory;
mod orphans;
mod retransmission;
mod routers;
mod shards;
mod stream;
mod syn_queue;
mod time_wait;
mod udp;
mod window_edge;
