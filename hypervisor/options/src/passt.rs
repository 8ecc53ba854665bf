//! passt(1) as uhyve and `cargo xtask run` start it, over one end of a pair of sockets.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::set_socket_send_buffer_size;

/// Name of the executable.
const PROGRAM: &str = "passt";

/// Maximum MTU in bytes: passt's own. The MTU of the path does not matter: passt terminates the guest's TCP
/// connections.
pub const MAX_MTU: u16 = 65_520;

/// Size in bytes of the socket's send buffer at passt's end, which the host limits to `net.core.wmem_max`. passt drops
/// frames that do not fit, and does not repeat a SYN; a small frame takes 768 bytes.
const SEND_BUFFER: usize = 4 << 20;

/// Returns the command that starts passt with its end of the pair of sockets. Every child process inherits that end until it
/// is closed.
///
/// # Errors
///
/// The host refuses the size of the buffer or the flag of the descriptor.
pub fn command(theirs: &UnixStream) -> io::Result<Command> {
    inherit(theirs)?;
    set_socket_send_buffer_size(theirs, SEND_BUFFER)?;
    let mut command = Command::new(PROGRAM);
    command.args(["--quiet", "--fd", &theirs.as_raw_fd().to_string()]).stdin(Stdio::null());
    Ok(command)
}

/// Lets child processes inherit a socket: clears `FD_CLOEXEC`.
///
/// # Errors
///
/// The host refuses.
pub fn inherit(socket: &UnixStream) -> io::Result<()> {
    Ok(fcntl_setfd(socket, FdFlags::empty())?)
}
