//! Minimal client of the GDB server, which only resumes the guest.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output};

/// Packet that resumes all vCPUs.
const CONTINUE: &[u8] = b"$vCont;c#a8";

/// Packet that has the boot CPU execute one instruction.
pub(crate) const STEP: &[u8] = b"$vCont;s:1#23";

/// Byte that pauses all vCPUs, as gdb's Ctrl-C.
const INTERRUPT: &[u8] = b"\x03";

/// Connects to a uhyve that waits for gdb, and resumes the guest, which is debugged as long as the connection is open.
/// Returns `None` if uhyve has no GDB server.
pub(crate) fn resume(uhyve: &mut Child) -> Option<TcpStream> {
    let mut line = String::new();
    // Without a buffer: the following lines are for another reader.
    let mut stderr = BufReader::with_capacity(1, uhyve.stderr.as_mut().unwrap());
    stderr.read_line(&mut line).unwrap();
    if line.contains("waits for gdb") {
        stderr.read_line(&mut line).unwrap();
    }
    let port = line.split_once("target remote :")?.1.split('"').next()?.parse().unwrap();
    let mut gdb = TcpStream::connect(("127.0.0.1", port)).unwrap();
    gdb.write_all(CONTINUE).unwrap();
    // The acknowledgement, `+`.
    gdb.read_exact(&mut [0]).unwrap();
    Some(gdb)
}

/// Pauses all vCPUs, and waits for the reply.
pub(crate) fn pause(gdb: &mut TcpStream) {
    gdb.write_all(INTERRUPT).unwrap();
    let mut reply = Vec::new();
    BufReader::new(gdb).read_until(b'#', &mut reply).unwrap();
    assert!(reply.starts_with(b"$T02"), "{reply:?}");
}

/// Runs uhyve with a debugger to its end.
pub(crate) fn output(uhyve: &mut Command) -> Output {
    let mut uhyve = uhyve.args(["--gdb", "0"]).spawn().unwrap();
    let gdb = resume(&mut uhyve);
    let output = uhyve.wait_with_output().unwrap();
    drop(gdb);
    output
}
