//! Sockets with Linux's meaning.
//!
//! The stack is a plain object: it never blocks, has no threads and touches no hardware. The kernel calls it
//! with a lock held. The stack notifies the kernel through [`Host::wake`], receives and transmits frames
//! through [`NetDevice`], and gets the time as an argument.
//!
//! The TCP state machine is in `hermit-tcp`; smoltcp provides wire formats, ARP and NDP responses, DHCP,
//! IGMP, MLD and SLAAC; the rest is here. Frames, timers and calls find their connection by hash or index,
//! without a scan.
//!
//! # Layers
//!
//! A layer imports only the layers below it in this table, and owns its state in a struct:
//!
//! | module | contents | state |
//! | --- | --- | --- |
//! | `stack`, `poll`, `config` | the facade: calls of the kernel, one poll, the configuration | `Stack` |
//! | `layers` | all layers, and the lookup of a socket by its identifier | `Layers` |
//! | `tcp` | listeners and connections, their timers, segments within this host | `Tcp`, `Shard` |
//! | `udp` | UDP sockets and their multicast groups | `Udp` |
//! | `dns` | name servers, search list and own names, for the kernel's resolver | `Dns` |
//! | `socket` | common parts of sockets: table, addresses, ports, options, buffers | `SocketTable` |
//! | `ip` | ingress, routes, neighbors, groups, ICMP; DHCP and SLAAC | `Ip` |
//! | `wire` | headers: parsing, writing, reassembly | |
//! | `phy` | the interface to the network device; frames that wait for it | `Phy` |
//! | `collections` | tables that grow in small steps, and know their oldest entry | |
//! | `host` | the interface to the system around the stack | |
//!
//! - **Down**: `tcp` and `udp` get a `Context` for each call: the time, `Phy`, `Ip`, buffer accounting and
//!   random numbers; `ip` gets the time and the layers below. The device's queue (`Link`) is an argument of
//!   functions that transmit, since it is not available while a frame is received.
//! - **Up**: `ip` returns a `Delivery` for a received frame, which the facade passes to `tcp` or `udp`. An
//!   event of a socket is recorded in its `SocketTable`; only the facade wakes waiters, at the end of a call
//!   or poll.
//!
//! # Shards
//!
//! A TCP connection belongs to one `Shard`, which the hash of its addresses and ports selects. The shard also
//! has the connection's timer, and the queues of connections to be served. It receives and transmits for its
//! connections without the other shards. All shards share the layers below and the port table. The number of
//! a socket contains the number of its shard; `Tcp` finds the shard of a segment by its hash. A listener has
//! a replica with queues of its own in each shard. The number of shards is a field of `Configuration`. A
//! guest has one shard, since a lock serialises all calls. Most tests have three, so that no code relies on a
//! single shard.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod collections;
mod config;
mod dns;
mod host;
mod ip;
mod layers;
mod phy;
mod poll;
mod sip_hash;
mod socket;
mod stack;
mod tcp;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod udp;
mod wire;

pub use config::{Cidr, Configuration, HostAddress, Status};
pub use dns::KnownAddresses;
pub use hermit_interface::Errno;
pub use hermit_interface::net::{CongestionControl, OptionName, SocketOption};
pub use host::{Host, Random};
pub use phy::device::{Checksum, IpVersion, NetDevice, NetDeviceInfo, Offload, ReceivedInfo, Segment};
pub use socket::address::with_scope;
pub use socket::id::SocketId;
pub use socket::kind::{Family, Kind, Shutdown};
pub use socket::readiness::Readiness;
pub use stack::Stack;
