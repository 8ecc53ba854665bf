//! Tests of the client with servers at the loopback address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConnection, ServerConfig, ServerConnection, StreamOwned};

use crate::{FetchError, fetch, tls};

/// Reads a request and returns its path.
fn path(stream: impl Read) -> String {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap();
    assert!(lines.any(|line| line.is_empty()));
    first.split(' ').nth(1).unwrap().to_owned()
}

/// Starts a server. `answer` returns the response for a path.
fn server(answer: fn(&str) -> String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let answer = answer(&path(&stream));
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

/// Fetches a URL. Returns status and content.
fn get(url: &str) -> Result<(u16, String), FetchError> {
    let mut out = Vec::new();
    let head = fetch(url, &mut out)?;
    Ok((head.status, String::from_utf8(out).unwrap()))
}

#[test]
fn redirects_are_followed() {
    let address = server(|path| match path {
        "/start" => "HTTP/1.1 302 Found\r\nLocation: /middle\r\nContent-Length: 4\r\n\r\nskip".to_owned(),
        "/middle" => "HTTP/1.1 301 Moved\r\nLocation: end?x\r\n\r\n".to_owned(),
        "/end?x" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhere\r\n0\r\n\r\n".to_owned(),
        "/round" => "HTTP/1.1 307 Again\r\nLocation: /round\r\n\r\n".to_owned(),
        _ => "HTTP/1.1 404 Not Found\r\n\r\nnothing".to_owned(),
    });
    let get = |path: &str| get(&format!("http://{address}{path}"));
    assert_eq!(get("/start").unwrap(), (200, "here".to_owned()));
    assert_eq!(get("/elsewhere").unwrap(), (404, "nothing".to_owned()));
    assert!(matches!(get("/round"), Err(FetchError::Answer(_))));
}

#[test]
fn unreachable_and_invalid_servers_are_errors() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(matches!(get(&format!("http://{address}/")), Err(FetchError::Connection(_))));
    let address = server(|_| "nonsense\r\n\r\n".to_owned());
    assert!(matches!(get(&format!("http://{address}/")), Err(FetchError::Answer(_))));
}

/// Starts a TLS server for one client, with the certificate of the tests. Returns the server's address.
fn tls_server() -> SocketAddr {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("certificates/leaf.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("certificates/leaf.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let connection = ServerConnection::new(Arc::new(config)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let mut byte = [0];
        // The handshake fails if the client does not trust the certificate.
        if stream.read_exact(&mut byte).is_ok() {
            stream.write_all(&byte).unwrap();
        }
    });
    address
}

#[test]
fn untrusted_certificates_are_rejected() {
    let root = include_str!("certificates/ca.pem").lines().filter(|line| !line.starts_with("--"));
    let root: String = root.collect();
    for (root, name, trusted) in [
        (Some(root.clone()), "127.0.0.1", true),
        (Some(root), "example.org", false),
        (None, "127.0.0.1", false),
    ] {
        let config = tls::config(tls::roots(root).unwrap()).unwrap();
        let name = ServerName::try_from(name).unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(connection, TcpStream::connect(tls_server()).unwrap());
        let mut byte = [0];
        let result = stream.write_all(b"x").and_then(|()| stream.read_exact(&mut byte));
        assert_eq!((result.is_ok(), byte == *b"x"), (trusted, trusted), "{result:?}");
    }
    assert!(tls::roots(Some("nonsense".to_owned())).is_err());
    assert!(matches!(get(&format!("https://{}/", tls_server())), Err(FetchError::Connection(_))));
}
