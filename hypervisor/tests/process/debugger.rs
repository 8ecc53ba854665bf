//! Minimal client of the GDB server, which only resumes the guest.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output};

/// Packet that resumes all vCPUs.
pub(crate) const CONTINUE: &[u8] = b"$vCont;c#a8";

/// Packet that has the boot CPU execute one instruction.
pub(crate) const STEP: &[u8] = b"$vCont;s:1#23";

/// Byte that pauses all vCPUs, as gdb's Ctrl-C.
const INTERRUPT: &[u8] = b"\x03";

/// Returns the argument of gdb's `target remote` that uhyve prints; `None` if uhyve has no GDB server.
pub(crate) fn remote(uhyve: &mut Child) -> Option<String> {
    let mut line = String::new();
    // Reads without a buffer, because the following lines are for another reader.
    let mut stderr = BufReader::with_capacity(1, uhyve.stderr.as_mut().unwrap());
    stderr.read_line(&mut line).unwrap();
    if line.contains("waits for gdb") {
        stderr.read_line(&mut line).unwrap();
    }
    Some(line.split_once("target remote ")?.1.split('"').next()?.to_owned())
}

/// Returns the TCP port on which uhyve waits for gdb; `None` if uhyve has no GDB server.
pub(crate) fn port(uhyve: &mut Child) -> Option<u16> {
    remote(uhyve)?.strip_prefix(':')?.parse().ok()
}

/// Connects to a uhyve that waits for gdb, and resumes the guest. Returns the connection: the guest is
/// debugged as long as it is open. Returns `None` if uhyve has no GDB server.
pub(crate) fn resume(uhyve: &mut Child) -> Option<TcpStream> {
    let mut gdb = TcpStream::connect(("127.0.0.1", port(uhyve)?)).unwrap();
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
