//! Clients of servers as they are installed. The variable `SERVER` has the server's address: HOST:PORT.

mod redis;
mod tokio_postgres;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[("redis", redis::run), ("tokio-postgres", tokio_postgres::run)])
}

/// The server's address: its host and its port.
fn address() -> Result<(String, u16), Box<dyn std::error::Error + Send + Sync>> {
    let server = std::env::var("SERVER")?;
    let (host, port) = server.rsplit_once(':').ok_or("SERVER is not HOST:PORT")?;
    Ok((host.to_owned(), port.parse()?))
}
