//! IP: own addresses, routes, neighbors, multicast groups, the host's configuration, and the ingress path.
//! The result of a received frame is a [`delivery::Delivery`] for a layer above.

pub(crate) mod config;
pub(crate) mod delivery;
mod egress;
pub(crate) mod groups;
mod icmp;
mod identification;
mod ingress;
pub(crate) mod layer;
pub(crate) mod neighbors;
pub(crate) mod routes;
pub(crate) mod sources;
mod token_bucket;
