//! Egress policy: the hosts to which a guest may open connections.
//!
//! With the user-mode network, the guest's connections come from the host, with the rights of the user who
//! started uhyve. Without a policy, the guest would reach the credentials that a cloud serves at
//! 169.254.169.254, and services that trust their own host. So the policy defines which addresses are open
//! and which are closed. The operator opens and closes ranges (`allow=`, `deny=`, `egress=none` of `--net`).
//! Some ranges are closed by default.
//!
//! | module | |
//! | --- | --- |
//! | `prefix` | ranges of addresses: `10.0.0.0/8` |
//! | `policy` | which addresses are open: [`EgressPolicy`] asks for addresses, and so serves any backend |

mod policy;
mod prefix;

pub use policy::{EgressOptions, EgressPolicy, HostNetwork};
pub use prefix::Prefix;
