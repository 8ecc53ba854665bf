//! TCP and TLS connections.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::FetchError;
use crate::tls;
use crate::url::Url;

/// Timeout of connecting, and of each read and write.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A bidirectional stream.
pub(crate) trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Connects to the first of the host's addresses that answers.
pub(crate) fn open(url: &Url) -> Result<Box<dyn Stream>, FetchError> {
    let stream = connect(&url.host, url.port)?;
    if url.secure { Ok(Box::new(tls::start(stream, &url.host)?)) } else { Ok(Box::new(stream)) }
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut result = Err(io::Error::other("the host has no address"));
    for address in (host, port).to_socket_addrs()? {
        result = TcpStream::connect_timeout(&address, TIMEOUT);
        if result.is_ok() {
            break;
        }
    }
    let stream = result?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}
