//! Requests and responses over loopback connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{ConnectionEnd, serve};
use crate::settings::{RequestLimits, Settings};

/// Request timeout for clients that are in time, even on a busy host.
const LONG_TIMEOUT: Duration = Duration::from_secs(75);

/// Request timeout for clients that are late.
const SHORT_TIMEOUT: Duration = Duration::from_millis(400);

/// Connects a client to a server that serves this one connection.
fn client(is_crowded: bool) -> (TcpStream, JoinHandle<ConnectionEnd>) {
    client_with_timeout(LONG_TIMEOUT, is_crowded, b"")
}

/// Connects a client as [`client`] does. `time` is the server's request timeout; the other bytes have arrived
/// before the server starts.
fn client_with_timeout(
    time: Duration,
    is_crowded: bool,
    first: &[u8],
) -> (TcpStream, JoinHandle<ConnectionEnd>) {
    let limits = RequestLimits { time, body: 1000, ..Settings::default().limits };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.write_all(first).unwrap();
    client.set_read_timeout(Some(LONG_TIMEOUT * 2)).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, thread::spawn(move || serve(&server, &limits, || is_crowded).unwrap()))
}

/// Sends `bytes`, closes the sending side, and returns all responses.
fn exchange(bytes: &[u8]) -> String {
    let (mut client, server) = client(false);
    client.write_all(bytes).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    server.join().unwrap();
    text
}

/// Returns the status codes of the responses, in order.
fn status_codes(text: &str) -> Vec<&str> {
    text.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)).collect()
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let text = exchange(
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
        POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
        HEAD /bytes/10 HTTP/1.1\r\nHost: a\r\n\r\n\
        GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n\
        GET /never HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(status_codes(&text), ["200", "200", "200", "200", "404"], "{text}");
    assert!(text.contains("\r\n\r\nhelloHTTP/1.1"), "{text}");
    assert!(text.contains("\r\n\r\nabcHTTP/1.1"), "{text}");
    assert!(!text.contains("xxxxxxxxxx"), "{text}");
}

#[test]
fn error_response_closes_connection() {
    for (request, code) in [
        (&b"nonsense\r\n\r\n"[..], "400"),
        (b"GET / HTTP/3.0\r\n\r\n", "505"),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", "413"),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n", "417"),
    ] {
        let text = exchange(&[request, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
        assert_eq!(status_codes(&text), [code], "{text}");
        assert!(text.contains("Connection: close"), "{text}");
    }
    assert_eq!(
        status_codes(&exchange(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nshort")),
        ["400"]
    );
    let long = [b"GET /".to_vec(), b"a".repeat(9000), b" HTTP/1.1\r\n\r\n".to_vec()].concat();
    assert_eq!(status_codes(&exchange(&long)), ["414"]);
    let fields = [b"GET / HTTP/1.1\r\n".to_vec(), b"a: b\r\n".repeat(3000), b"\r\n".to_vec()].concat();
    assert_eq!(status_codes(&exchange(&fields)), ["431"]);
}

#[test]
fn slow_request_gets_408_and_idle_connection_is_closed() {
    let (mut silent, server) = client_with_timeout(SHORT_TIMEOUT, false, b"");
    let mut text = String::new();
    silent.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), server.join().unwrap()), ("", ConnectionEnd::Closed));
    let (mut slow, server) = client_with_timeout(SHORT_TIMEOUT, false, b"G");
    // The client keeps sending, but the request is not complete in time.
    for byte in b"ET / HTTP/1.1\r\nHost: a\r\nX: " {
        if slow.write_all(&[*byte]).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(30));
    }
    let mut text = String::new();
    slow.read_to_string(&mut text).unwrap();
    assert_eq!(status_codes(&text), ["408"], "{text}");
    server.join().unwrap();
}

#[test]
fn expect_100_continue_is_answered() {
    let (mut client, server) = client(false);
    client
        .write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .unwrap();
    let mut interim = [0; 25];
    client.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"ok").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("\r\n\r\nok"), "{text}");
    server.join().unwrap();
}

#[test]
fn connection_is_not_kept_alive_when_crowded() {
    let (mut client, server) = client(true);
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.contains("Connection: close"), "{text}");
    assert_eq!(server.join().unwrap(), ConnectionEnd::Closed);
}

#[test]
fn exit_request_ends_server() {
    let (mut client, server) = client(false);
    client.write_all(b"POST /exit HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    drop(client);
    assert!(text.ends_with("goodbye\n"), "{text}");
    assert_eq!(server.join().unwrap(), ConnectionEnd::ExitRequested);
}
