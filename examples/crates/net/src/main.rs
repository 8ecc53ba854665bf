//! Crates for networks. Servers and clients are in the same program, connected by the loopback.

crate_uses::crate_uses! {
    "axum": axum,
    "h2": h2,
    "hickory-proto": hickory_proto,
    "http": http,
    "httparse": httparse,
    "hyper": hyper,
    "ipnet": ipnet,
    "mio": mio,
    "redis": redis,
    "reqwest": reqwest,
    "socket2": socket2,
    "tokio-postgres": tokio_postgres,
    "tower": tower,
    "tungstenite": tungstenite,
    "ureq": ureq,
}

mod server;
