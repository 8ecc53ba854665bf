//! IP: own addresses, routes, neighbors, the host's configuration, and the ingress path.

pub(crate) mod config;
pub(crate) mod ingress;
pub(crate) mod neighbors;
pub(crate) mod routes;
pub(crate) mod sources;
pub(crate) mod token_bucket;
