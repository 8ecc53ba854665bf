//! `uhyve net`, with a test in place of QEMU.

mod tcp;

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use super::{RunningUhyve, exchange, with_port};
use crate::echo::{LAST, echo};
use crate::host::{Host, Outcome};

/// Command `uhyve net` with these options.
fn net(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uhyve"));
    command.arg("net").args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Reads a frame.
fn receive(mut stream: &UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(length).try_into().unwrap()];
    stream.read_exact(&mut frame).unwrap();
    frame
}

/// Writes a frame.
fn send(mut stream: &UnixStream, frame: &[u8]) {
    let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length, frame].concat()).unwrap();
}

/// Sends each datagram back to its sender, until the last one.
fn answer(stream: &UnixStream) {
    loop {
        let mut frame = receive(stream);
        if frame[12..14] != [8, 0] || frame[23] != 17 {
            continue;
        }
        // Checksums do not change.
        for (a, b, size) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
            let (front, back) = frame.split_at_mut(b);
            front[a..a + size].swap_with_slice(&mut back[..size]);
        }
        send(stream, &frame);
        if frame[38..40] == [0, 9] && frame[42] == LAST {
            return;
        }
    }
}

#[test]
fn qemu_exchanges_frames_by_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net");
    let (mut uhyve, port) = with_port(|port| {
        let options = ["--socket", path.to_str().unwrap(), "-p", &format!("{port}:7/udp")];
        RunningUhyve(Some(net(&options).spawn().unwrap()), Host::new(&echo(0), &[]))
    });
    // It listens when standard output has ended.
    let mut output = uhyve.0.as_mut().unwrap().stdout.take().unwrap();
    assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
    let stream = UnixStream::connect(&path).unwrap();
    let guest = thread::spawn(move || answer(&stream));
    exchange(&UdpSocket::bind("127.0.0.1:0").unwrap(), port);
    guest.join().unwrap();
    let outcome = uhyve.outcome();
    assert_eq!((outcome.code, &*outcome.errors), (Some(0), ""));
    assert!(!path.exists());
}

fn fails(options: &[&str], code: i32, text: &str) {
    let outcome = Outcome::from(net(options).output().unwrap());
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    assert!(outcome.errors.contains(text), "{outcome:?}");
}

/// Starts `uhyve net`, and connects to it.
fn connect(options: &[&str]) -> (Child, UnixStream) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net");
    let mut uhyve = net(&[&["--socket", path.to_str().unwrap()], options].concat()).spawn().unwrap();
    // It listens when standard output has ended.
    assert_eq!(uhyve.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap(), 0);
    (uhyve, UnixStream::connect(&path).unwrap())
}

#[test]
fn stream_without_frames_is_an_error() {
    let (uhyve, mut stream) = connect(&[]);
    stream.write_all(&[0xff; 8]).unwrap();
    let outcome = Outcome::from(uhyve.wait_with_output().unwrap());
    assert_eq!(outcome.code, Some(125), "{outcome:?}");
    assert!(outcome.errors.contains("a frame of an invalid length"), "{outcome:?}");
}

#[test]
fn errors_of_the_network_say_what_is_wrong() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("{}:80", listener.local_addr().unwrap().port());
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fails(&["--socket", &path("a"), "-p", &port], 125, "of the host is in use");
    fails(&["--socket", &path("no/such/folder")], 125, "No such file or directory");
    fails(&["--socket", &path("a"), "--net", "tap=tap0"], 2, "write --net user");
    fails(&[], 2, "--socket");
    assert!(!Path::new(&path("a")).exists());
}
