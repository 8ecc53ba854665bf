//! Sockets with Linux's meaning.
//!
//! The stack is a plain object: it never waits, has no threads and knows no hardware. Its user calls it with a lock
//! held and gets woken by [`Host::wake`]; frames come and go by [`Hardware`]; time is an argument.
//!
//! TCP itself is the state machine of `hermit-tcp`, formats and what keeps a host on its network are smoltcp's; the rest is
//! here. The connection that a frame, a deadline or a call concerns is found without looking at any other.
//!
//! | module | what |
//! | --- | --- |
//! | `stack`, `core`, `poll` | what users call; all state; a round of work |
//! | `receive`, `wire`, `link` | for whom a frame is; how headers are read and written; where frames go |
//! | `network` | which way packets go, which neighbors are where |
//! | `tcp` | connections, listeners, how segments come and go |
//! | `udp` | datagrams |
//! | `control`, `resolve` | addresses from servers and routers; names |
//! | `bind`, `ports`, `settings` | who has which address; options |
//! | `budget`, `slab`, `timers`, `allowance` | memory, names of sockets, deadlines, bounds |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod address;
mod allowance;
mod bind;
mod budget;
mod configuration;
mod control;
mod core;
mod hardware;
mod host;
mod link;
mod network;
mod options;
mod poll;
mod ports;
mod receive;
mod resolve;
mod settings;
mod slab;
mod socket;
mod stack;
mod tcp;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timers;
mod udp;
mod wire;

pub use configuration::{Cidr, Configuration, HostAddress, Status};
pub use hardware::{Checksum, Hardware, HardwareInfo, IpVersion, Offload, ReceivedInfo, Segment};
pub use hermit_interface::Errno;
pub use host::Host;
pub use options::{OptionName, SocketOption};
pub use resolve::{Addresses, Families, QueryId, ResolveError};
pub use socket::{Family, Kind, Readiness, Shutdown, SocketId};
pub use stack::Stack;
