//! Crates for networks. Servers and clients are in the same program, connected by the loopback.

mod axum;
mod certificate;
mod clients;
mod h2;
mod hyper;
mod ipnet;
mod messages;
mod mio;
mod quinn;
mod redis;
mod resolver;
mod rustls;
mod server;
mod socket2;
mod tokio_postgres;
mod tokio_rustls;
mod tonic;
mod tower;
mod tungstenite;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[
        ("axum", axum::run),
        ("h2", h2::run),
        ("hickory-proto", resolver::hickory_proto),
        ("hickory-resolver", resolver::hickory_resolver),
        ("http", messages::http),
        ("httparse", messages::httparse),
        ("hyper", hyper::run),
        ("ipnet", ipnet::run),
        ("mio", mio::run),
        ("quinn", quinn::run),
        ("redis", redis::run),
        ("reqwest", clients::reqwest),
        ("rustls", rustls::run),
        ("socket2", socket2::run),
        ("tokio-postgres", tokio_postgres::run),
        ("tokio-rustls", tokio_rustls::run),
        ("tonic", tonic::run),
        ("tower", tower::run),
        ("tungstenite", tungstenite::run),
        ("ureq", clients::ureq),
    ])
}
