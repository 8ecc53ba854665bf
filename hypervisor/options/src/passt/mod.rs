//! passt(1) as uhyve and `cargo xtask run` start it, over one end of a pair of sockets.

mod loopback;
mod supervisor;

use std::env;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::process::geteuid;

pub use loopback::{DNS_FORWARD, HOST_LOOPBACK, arguments, needs_dns_forward, udp_note};
pub use supervisor::supervise;

/// Name of the executable.
const PROGRAM: &str = "passt";

/// Maximum MTU in bytes: passt's own. The MTU of the path does not matter: passt terminates the guest's TCP
/// connections.
pub const MAX_MTU: u16 = 65_520;

/// Size in bytes of the socket's send buffer at passt's end, which the host limits to `net.core.wmem_max`. passt drops
/// frames that do not fit, and does not repeat a SYN; a small frame takes 768 bytes.
const SEND_BUFFER: usize = 4 << 20;

/// Maximum number of characters of passt's messages in an error.
const MAX_MESSAGE: usize = 500;

/// Reason for which passt cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PasstError {
    /// The executable is not installed.
    #[error(
        "-p and --net passt need the program passt, which is not installed.\n  \
         Debian, Ubuntu: sudo apt install passt\n  Fedora: sudo dnf install passt\n\
         Or use a tap: docs/network.md"
    )]
    NotInstalled,
    /// The process cannot be started.
    #[error("cannot start passt: {0}")]
    Start(#[from] io::Error),
    /// passt has exited with an error.
    #[error("passt cannot connect the guest: {0}")]
    Failed(String),
}

/// A passt process during its initialisation, and its supervisor.
#[derive(Debug)]
pub struct PasstStartup(Child);

/// Returns a command with no variable but `PATH`. Variables of uhyve are often secrets for the guest's
/// program, and passt, which reads what the network sends, needs none.
fn without_variables(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(env::var_os("PATH").map(|path| ("PATH", path)));
    command
}

/// Starts passt with its end of the pair of sockets and these arguments, and the supervisor that ends passt when the other
/// end is closed.
///
/// The supervisor is the executable of this process, whose `main` must call [`supervise`] first.
///
/// # Errors
///
/// The host refuses the size of the buffer, or cannot start the supervisor.
pub fn start(
    theirs: UnixStream,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<PasstStartup, PasstError> {
    set_socket_send_buffer_size(&theirs, SEND_BUFFER).map_err(io::Error::from)?;
    let supervisor = without_variables("/proc/self/exe")
        .arg0(supervisor::NAME)
        .args(arguments)
        // Ctrl-C at the terminal is for uhyve or QEMU, which may take their time to exit.
        .process_group(0)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok(PasstStartup(supervisor))
}

impl PasstStartup {
    /// Waits for the end of passt's initialisation, after which it runs in the background. Returns the
    /// numbers of the users who may own passt's sockets: its own user, and the one that has started it,
    /// because version 2023-03 binds its ports before it changes its user.
    ///
    /// # Errors
    ///
    /// passt is not installed, or has exited with an error.
    pub fn finish(self) -> Result<[u32; 2], PasstError> {
        let Self(mut supervisor) = self;
        let (mut messages, mut answer) = (Vec::new(), Vec::new());
        // The supervisor closes both when passt runs in the background.
        supervisor.stderr.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut messages))?;
        supervisor.stdout.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut answer))?;
        let answer = String::from_utf8_lossy(&answer);
        if let Some(user) = answer.strip_prefix(supervisor::READY).and_then(|user| user.parse().ok()) {
            return Ok([user, geteuid().as_raw()]);
        }
        let status = supervisor.wait()?;
        if status.code() == Some(supervisor::NOT_FOUND.into()) {
            return Err(PasstError::NotInstalled);
        }
        let messages = relevant_messages(&String::from_utf8_lossy(&messages));
        Err(PasstError::Failed(if messages.is_empty() {
            format!("it ended with {status}")
        } else {
            messages
        }))
    }
}

/// The messages of passt that explain its failure.
fn relevant_messages(stderr: &str) -> String {
    let is_noise =
        |line: &&str| line.is_empty() || line.starts_with("Failed to send ") || line.contains("run as root");
    let lines: Vec<_> = stderr.lines().map(str::trim).filter(|line| !is_noise(line)).collect();
    lines.join("; ").chars().take(MAX_MESSAGE).collect()
}

/// Lets child processes inherit a socket: clears `FD_CLOEXEC`.
///
/// # Errors
///
/// The host refuses.
pub fn inherit(socket: &UnixStream) -> io::Result<()> {
    Ok(fcntl_setfd(socket, FdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::{PasstError, relevant_messages};

    #[test]
    fn relevant_messages_omits_noise() {
        let text = "Failed to send 47 bytes to syslog\nDon't run as root. Changing user...\n\
                    Failed to send 62 bytes to syslog\nFailed to bind any port for '-t 80:80', exiting\n";
        assert_eq!(relevant_messages(text), "Failed to bind any port for '-t 80:80', exiting");
        assert_eq!(relevant_messages(&"x".repeat(10_000)).len(), 500);
        assert_eq!(relevant_messages(""), "");
    }

    #[test]
    fn not_installed_error_names_the_package() {
        let message = PasstError::NotInstalled.to_string();
        assert!(message.contains("apt install passt") && message.contains("docs/network.md"));
    }
}
