//! TCP sockets, listeners and connections, around the state machine of `hermit-tcp`.

pub(crate) mod backlog;
mod connect;
mod connection;
pub(crate) mod deferred;
mod icmp;
pub(crate) mod layer;
mod lifecycle;
mod listener;
pub(crate) mod loopback;
mod numbers;
mod pass;
mod path;
mod replicas;
mod rx;
mod service;
pub(crate) mod shard;
mod sharding;
mod stream;
mod syn_cookies;
mod time_wait;
mod timers;
mod tx;
