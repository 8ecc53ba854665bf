//! IP: own addresses, routes, neighbors, multicast groups, the host's configuration, and the ingress path.
//!
//! Received frames come back as [`delivery::Delivery`]: what a layer above handles.

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
