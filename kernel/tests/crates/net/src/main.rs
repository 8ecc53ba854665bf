//! Crates for networks. Servers and clients are in the same program, connected by the loopback.

crate_uses::crate_uses! {
    "axum": axum,
    "h2": h2,
    "hickory-proto": hickory_proto,
    "hickory-resolver": hickory_resolver,
    "http": http,
    "httparse": httparse,
    "hyper": hyper,
    "ipnet": ipnet,
    "mio": mio,
    "quinn": quinn,
    "redis": redis,
    "reqwest": reqwest,
    "rustls": rustls,
    "socket2": socket2,
    "tokio-postgres": tokio_postgres,
    "tokio-rustls": tokio_rustls,
    "tonic": tonic,
    "tower": tower,
    "tungstenite": tungstenite,
    "ureq": ureq,
}

mod certificate;
mod server;
