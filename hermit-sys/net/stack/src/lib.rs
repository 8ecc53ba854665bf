//! Sockets with Linux's meaning.
//!
//! The stack is a plain object: it never blocks, has no threads and touches no hardware. The kernel calls it with a
//! lock held, and is notified by [`Host::wake`]; frames are received and transmitted by [`NetDevice`]; time is an
//! argument.
//!
//! The TCP state machine is in `hermit-tcp`; smoltcp provides wire formats, ARP and NDP responses, DHCP, DNS, IGMP, MLD
//! and SLAAC; the rest is here. Frames, timers and calls find their connection by hash or index, without a scan.
//!
//! | module | contents |
//! | --- | --- |
//! | `stack`, `inner`, `poll` | the interface to the kernel; all state; one poll |
//! | `device`, `link` | the interface to the network device; transmit queues |
//! | `wire` | headers: parsing, writing, reassembly |
//! | `ip` | ingress, routes, neighbors, ICMP errors |
//! | `tcp`, `udp` | connections and listeners; UDP sockets and multicast groups |
//! | `config`, `resolve` | DHCP, SLAAC and DNS clients; queries for names |
//! | `socket`, `bind`, `ports`, `options` | sockets, their local addresses and ports, socket options |
//! | `buffers`, `slab`, `timers`, `token_bucket` | buffer accounting, socket table, timer heap, rate limits |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod address;
mod bind;
mod buffers;
mod config;
mod configuration;
mod device;
mod host;
mod inner;
mod ip;
mod link;
mod options;
mod poll;
mod ports;
mod resolve;
mod slab;
mod socket;
mod stack;
mod tcp;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timers;
mod token_bucket;
mod udp;
mod wire;

pub use configuration::{Cidr, Configuration, HostAddress, Status};
pub use device::{Checksum, IpVersion, NetDevice, NetDeviceInfo, Offload, ReceivedInfo, Segment};
pub use hermit_interface::Errno;
pub use hermit_interface::net::{OptionName, SocketOption};
pub use host::Host;
pub use resolve::{Addresses, Families, QueryId, ResolveError};
pub use socket::{Family, Kind, Readiness, Shutdown, SocketId};
pub use stack::Stack;
