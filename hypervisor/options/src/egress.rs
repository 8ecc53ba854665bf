//! Egress policy: which hosts a guest may open connections to.
//!
//! A guest whose connections are sockets of the host opens connections with the rights of the user who
//! started uhyve, from that user's host. Without a policy it reaches the credentials that a cloud serves at
//! 169.254.169.254, and services that trust their own host. So an address is open or closed. The operator
//! opens and closes ranges (`allow=`, `deny=`, `egress=none` of `--net`), and some are closed from the start.
//!
//! | module | |
//! | --- | --- |
//! | `prefix` | ranges of addresses: `10.0.0.0/8` |
//! | `policy` | which addresses are open: [`EgressPolicy`] asks for addresses, and so serves any backend |

mod policy;
mod prefix;

pub use policy::{EgressOptions, EgressPolicy, HostNetwork};
pub use prefix::Prefix;
