//! IP: own addresses, routes, neighbors, multicast groups, the host's configuration, and the ingress path.
//!
//! Received frames come back as [`ingress::Delivery`]: what a layer above handles.

pub(crate) mod config;
mod egress;
pub(crate) mod groups;
pub(crate) mod icmp;
pub(crate) mod ingress;
pub(crate) mod layer;
pub(crate) mod neighbors;
pub(crate) mod routes;
pub(crate) mod sources;
mod token_bucket;
