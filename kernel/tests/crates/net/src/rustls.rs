//! TLS over a socket that blocks: both versions, resumption, and certificates that a client does not trust.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use ::rustls::{
    ClientConfig, ClientConnection, ServerConfig, ServerConnection, Stream, StreamOwned, version,
};

use crate::certificate::Certificate;

/// Echoes what clients send, until they close their side.
fn serve(config: Arc<ServerConfig>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let config = config.clone();
            thread::spawn(move || {
                let connection = ServerConnection::new(config).map_err(io::Error::other)?;
                let mut stream = StreamOwned::new(connection, socket);
                let mut data = Vec::new();
                stream.read_to_end(&mut data)?;
                stream.write_all(&data)?;
                stream.conn.send_close_notify();
                stream.flush()
            });
        }
    });
    Ok(address)
}

/// Sends and receives, and prints how.
fn exchange(address: SocketAddr, config: &Arc<ClientConfig>, name: &'static str) -> crate_uses::Result {
    let mut connection = ClientConnection::new(config.clone(), name.try_into()?)?;
    let mut socket = TcpStream::connect(address)?;
    let data: Vec<u8> = crate_uses::numbers(3).take(50_000).map(|number| number as u8).collect();
    let mut stream = Stream::new(&mut connection, &mut socket);
    stream.write_all(&data)?;
    stream.conn.send_close_notify();
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    println!("{:?} {:?}", connection.protocol_version(), connection.handshake_kind());
    println!("{:?} {}", connection.negotiated_cipher_suite().map(|suite| suite.suite()), received == data);
    Ok(())
}

pub fn run() -> crate_uses::Result {
    let certificate = Certificate::new()?;
    let address = serve(Arc::new(certificate.server(&[])?))?;
    let config = Arc::new(certificate.client(&[])?);
    exchange(address, &config, "localhost")?;
    exchange(address, &config, "localhost")?;
    let mut roots = ::rustls::RootCertStore::empty();
    roots.add(certificate.certificate.clone())?;
    let old = ClientConfig::builder_with_protocol_versions(&[&version::TLS12]);
    exchange(address, &Arc::new(old.with_root_certificates(roots).with_no_client_auth()), "localhost")?;
    println!("{:?}", exchange(address, &config, "other.example").is_err());
    let stranger = Arc::new(Certificate::new()?.client(&[])?);
    println!("{:?}", exchange(address, &stranger, "localhost").map_err(|error| error.to_string()));
    Ok(())
}
