//! TLS connections: rustls, with graviola's cryptography.

use std::net::TcpStream;
use std::sync::Arc;
use std::{env, io};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A TLS connection to a host whose certificate has been verified.
pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Performs the TLS handshake, and verifies the host's certificate.
pub(crate) fn start(mut stream: TcpStream, host: &str) -> io::Result<TlsStream> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let config = config(roots(env::var("HTTP_CLIENT_ROOT").ok())?)?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(connection, stream))
}

pub(crate) fn config(roots: RootCertStore) -> io::Result<ClientConfig> {
    let provider = Arc::new(rustls_graviola::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Returns the root certificates: Mozilla's, and optionally one more.
pub(crate) fn roots(another: Option<String>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(text) = another {
        let file = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", text.trim());
        let certificate = CertificateDer::from_pem_slice(file.as_bytes()).map_err(io::Error::other)?;
        roots.add(certificate).map_err(io::Error::other)?;
    }
    Ok(roots)
}
