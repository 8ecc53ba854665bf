//! Connections to the GDB server: by users who may debug the guest, and by others.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::thread;

use hermit_interface::machine::TEXT_PORT;
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

use crate::debugger::{CONTINUE, port, remote};
use crate::guest::GuestBuilder;
use crate::host::{Host, Outcome};

/// Exit status of the guest.
const STATUS: u8 = 7;

/// A user who is neither root nor the one who runs the tests.
const STRANGER: u32 = 65_534;

/// Starts uhyve with a guest that waits for gdb, prints a character, and exits.
fn start() -> (Child, u16) {
    let image = GuestBuilder::image(STATUS, |guest| guest.out(TEXT_PORT, u64::from(b'!').into(), 1));
    let host = Host::new(&image, &["--gdb", "0"]);
    let mut uhyve = host.command().spawn().unwrap();
    let port = port(&mut uhyve).unwrap();
    (uhyve, port)
}

/// Asserts that the guest still waits, resumes it, and returns uhyve's messages.
fn resume(uhyve: Child, mut gdb: impl Read + Write) -> String {
    gdb.write_all(CONTINUE).unwrap();
    let outcome = Outcome::from(uhyve.wait_with_output().unwrap());
    assert_eq!((outcome.code, &*outcome.text), (Some(STATUS.into()), "!"), "{outcome:?}");
    outcome.errors
}

/// Sends bytes, and waits until uhyve closes the connection.
fn refused(mut stream: TcpStream, bytes: &[u8]) {
    // Both fail if uhyve has closed the connection before it has read everything.
    let _: std::io::Result<()> = stream.write_all(bytes);
    let _: std::io::Result<usize> = stream.read_to_end(&mut Vec::new());
}

fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).unwrap()
}

/// Regression test: the guest ran to its end after each of these.
#[test]
fn what_is_not_gdb_is_disconnected_and_the_guest_waits() {
    let (uhyve, port) = start();
    refused(connect(port), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    refused(connect(port), b"\x16\x03\x01");
    drop(connect(port));
    // This connection begins like gdb's.
    refused(connect(port), b"+$?#00GET");
    drop(connect(port));
    let errors = resume(uhyve, connect(port));
    assert!(errors.contains("0x47, not as gdb does"), "{errors}");
}

/// Regression test: uhyve collected the packet without a limit.
#[test]
fn packet_that_is_too_long_ends_the_connection() {
    let (uhyve, port) = start();
    let mut stream = connect(port);
    stream.write_all(b"$").unwrap();
    // The write fails once uhyve has closed the connection. If uhyve does not close it, the test does not
    // end.
    while stream.write_all(&[b'a'; 1024]).is_ok() {}
    resume(uhyve, connect(port));
}

#[test]
fn silent_connection_gives_way() {
    let (uhyve, port) = start();
    let silent = connect(port);
    resume(uhyve, connect(port));
    drop(silent);
}

#[test]
fn other_users_are_refused() {
    if !geteuid().is_root() {
        println!("skipped: only root takes the IDs of other users");
        return;
    }
    let (uhyve, port) = start();
    let stranger = thread::spawn(move || {
        let uid = Uid::from_raw(STRANGER);
        // Sets the user ID only of this thread, so that the socket belongs to that user.
        set_thread_res_uid(uid, uid, uid).unwrap();
        refused(connect(port), CONTINUE);
    });
    stranger.join().unwrap();
    let errors = resume(uhyve, connect(port));
    assert!(errors.contains(&format!("of user {STRANGER}: only user 0 and root")), "{errors}");
}

#[test]
fn unix_socket_is_for_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gdb");
    let image = GuestBuilder::image(STATUS, |guest| guest.out(TEXT_PORT, u64::from(b'!').into(), 1));
    // The second uhyve finds the socket of the first one.
    for _ in 0..2 {
        let host = Host::new(&image, &[]);
        let mut uhyve = host.command().arg("--gdb").arg(&path).spawn().unwrap();
        assert_eq!(remote(&mut uhyve).as_deref(), path.to_str());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut gdb = UnixStream::connect(&path).unwrap();
        gdb.write_all(b"$qSupported:x#e9").unwrap();
        let mut reply = Vec::new();
        BufReader::new(&gdb).read_until(b'#', &mut reply).unwrap();
        assert!(reply.starts_with(b"+$PacketSize=1000;"), "{}", String::from_utf8_lossy(&reply));
        resume(uhyve, gdb);
    }
}
