//! Guests whose processors are debugged, by somebody who only says that they are to run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output};

/// The packet that has all processors run.
const RUN: &[u8] = b"$vCont;c#a8";

/// Lets the guest of an uhyve run that waits for gdb. The guest goes on when the connection is dropped, too, but not debugged.
/// None if there is no guest.
pub(crate) fn let_run(uhyve: &mut Child) -> Option<TcpStream> {
    let mut line = String::new();
    // Byte by byte: what comes later is somebody else's.
    let stderr = uhyve.stderr.as_mut().unwrap();
    BufReader::with_capacity(1, stderr).read_line(&mut line).unwrap();
    let port = line.split_once("target remote :")?.1.split('"').next()?.parse().unwrap();
    let mut gdb = TcpStream::connect(("127.0.0.1", port)).unwrap();
    gdb.write_all(RUN).unwrap();
    // It is said that it was understood.
    gdb.read_exact(&mut [0]).unwrap();
    Some(gdb)
}

/// Runs an uhyve whose guest is debugged to its end.
pub(crate) fn output(uhyve: &mut Command) -> Output {
    let mut uhyve = uhyve.args(["--gdb", "0"]).spawn().unwrap();
    let gdb = let_run(&mut uhyve);
    let output = uhyve.wait_with_output().unwrap();
    drop(gdb);
    output
}
