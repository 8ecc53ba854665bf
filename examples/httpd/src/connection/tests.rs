//! Conversations with a server over real sockets.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{End, serve};
use crate::settings::{Limits, Settings};

/// The patience of a server whose clients are in time, on a busy machine too.
const LONG: Duration = Duration::from_secs(30);

/// And of one whose clients are not.
const SHORT: Duration = Duration::from_millis(400);

/// A client of a server that serves this one connection.
fn client(crowded: bool) -> (TcpStream, JoinHandle<End>) {
    client_within(LONG, crowded)
}

/// The same, with a server of this patience.
fn client_within(time: Duration, crowded: bool) -> (TcpStream, JoinHandle<End>) {
    let limits = Limits { time, body: 1000, ..Settings::default().limits };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(LONG * 2)).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, thread::spawn(move || serve(&server, &limits, || crowded).unwrap()))
}

/// Sends all of this and nothing more, and gives all that comes.
fn say(bytes: &[u8]) -> String {
    let (mut client, server) = client(false);
    client.write_all(bytes).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    server.join().unwrap();
    text
}

/// The status codes in the order they come.
fn codes(text: &str) -> Vec<&str> {
    text.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)).collect()
}

#[test]
fn requests_may_follow_without_waiting() {
    let text = say(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
        POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
        HEAD /bytes/10 HTTP/1.1\r\nHost: a\r\n\r\n\
        GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n\
        GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(codes(&text), ["200", "200", "200", "200", "404"], "{text}");
    assert!(text.contains("\r\n\r\nhelloHTTP/1.1"), "{text}");
    assert!(text.contains("\r\n\r\nabcHTTP/1.1"), "{text}");
    assert!(!text.contains("xxxxxxxxxx"), "{text}");
}

#[test]
fn a_refusal_ends_the_connection() {
    for (request, code) in [
        (&b"nonsense\r\n\r\n"[..], "400"),
        (b"GET / HTTP/3.0\r\n\r\n", "505"),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", "413"),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n", "417"),
    ] {
        let text = say(&[request, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
        assert_eq!(codes(&text), [code], "{text}");
        assert!(text.contains("Connection: close"), "{text}");
    }
    assert_eq!(codes(&say(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nshort")), ["400"]);
    let long = [b"GET /".to_vec(), b"a".repeat(9000), b" HTTP/1.1\r\n\r\n".to_vec()].concat();
    assert_eq!(codes(&say(&long)), ["414"]);
    let fields = [b"GET / HTTP/1.1\r\n".to_vec(), b"a: b\r\n".repeat(3000), b"\r\n".to_vec()].concat();
    assert_eq!(codes(&say(&fields)), ["431"]);
}

#[test]
fn slow_clients_are_told_or_left() {
    let (mut silent, server) = client_within(SHORT, false);
    let mut text = String::new();
    silent.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), server.join().unwrap()), ("", End::Usual));
    let (mut slow, server) = client_within(SHORT, false);
    // It sends something all the time, and yet it is too slow.
    for byte in b"GET / HTTP/1.1\r\nHost: a\r\nX: " {
        if slow.write_all(&[*byte]).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(30));
    }
    let mut text = String::new();
    slow.read_to_string(&mut text).unwrap();
    assert_eq!(codes(&text), ["408"], "{text}");
    server.join().unwrap();
}

#[test]
fn a_client_may_wait_for_leave() {
    let (mut client, server) = client(false);
    client
        .write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .unwrap();
    let mut leave = [0; 25];
    client.read_exact(&mut leave).unwrap();
    assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"ok").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("\r\n\r\nok"), "{text}");
    server.join().unwrap();
}

#[test]
fn a_place_that_others_wait_for_is_given_up() {
    let (mut client, server) = client(true);
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.contains("Connection: close"), "{text}");
    assert_eq!(server.join().unwrap(), End::Usual);
}

#[test]
fn the_program_is_told_to_end() {
    let (mut client, server) = client(false);
    client.write_all(b"POST /exit HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    drop(client);
    assert!(text.ends_with("goodbye\n"), "{text}");
    assert_eq!(server.join().unwrap(), End::Exit);
}
