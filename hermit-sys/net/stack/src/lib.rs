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
//! | `stack`, `poll`, `config` | the facade: the interface to the kernel, one poll, the configuration |
//! | `tcp`, `udp` | connections and listeners; UDP sockets and multicast groups |
//! | `dns` | queries for names, the DNS client |
//! | `socket` | socket table, addresses, ports, options, buffer accounting |
//! | `ip` | ingress, routes, neighbors, ICMP errors; DHCP and SLAAC |
//! | `wire` | headers: parsing, writing, reassembly |
//! | `phy` | the interface to the network device; transmit queues |
//! | `host` | the interface to the system around the stack |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod config;
mod dns;
mod host;
mod ip;
mod layers;
mod phy;
mod poll;
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
pub use dns::answer::{Addresses, ResolveError};
pub use dns::{Families, QueryId};
pub use hermit_interface::Errno;
pub use hermit_interface::net::{OptionName, SocketOption};
pub use host::{Host, Random};
pub use phy::device::{Checksum, IpVersion, NetDevice, NetDeviceInfo, Offload, ReceivedInfo, Segment};
pub use socket::id::SocketId;
pub use socket::kind::{Family, Kind, Shutdown};
pub use socket::readiness::Readiness;
pub use stack::Stack;
