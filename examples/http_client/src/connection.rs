//! TCP and TLS connections.

use std::env;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::num::NonZeroU64;
use std::time::Duration;

use crate::FetchError;
use crate::tls;
use crate::url::Url;

/// Default timeout of connecting, and of each read and write.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A bidirectional stream.
pub(crate) trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Connects to the first of the host's addresses that accepts the connection.
pub(crate) fn open(url: &Url) -> Result<Box<dyn Stream>, FetchError> {
    let stream = connect(&url.host, url.port)?;
    if url.secure { Ok(Box::new(tls::start(stream, &url.host)?)) } else { Ok(Box::new(stream)) }
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let (timeout, mut result) = (timeout(), Err(io::Error::other("the host has no address")));
    for address in (host, port).to_socket_addrs()? {
        result = TcpStream::connect_timeout(&address, timeout);
        if result.is_ok() {
            break;
        }
    }
    let stream = result?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

/// Returns the timeout in the variable `HTTP_CLIENT_TIMEOUT`, or the default timeout.
fn timeout() -> Duration {
    let seconds = env::var("HTTP_CLIENT_TIMEOUT").ok().and_then(|text| text.parse::<NonZeroU64>().ok());
    seconds.map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(seconds.get()))
}
