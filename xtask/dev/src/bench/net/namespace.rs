//! The network namespace and the PID namespace of the suite. They make sure that no process and no device is
//! left after the suite.
//!
//! `unshare` creates both namespaces and starts this executable again in them, as init of the PID namespace.
//! When init exits, the kernel kills the other processes of the PID namespace. With the last process, the
//! kernel removes the network namespace and its devices. The standard input of init is a pipe from the
//! process outside, and init exits at its end of file. So init also exits if the process outside is killed.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hermit_machines::signals;
use hermit_toolchain::process;

/// The device by which processes create taps.
const TUN: &str = "/dev/net/tun";

/// Name of the command of this executable that executes the plan.
const COMMAND: &str = "net-bench";

/// Interval at which the outer process polls the process in the namespaces.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Message for missing privileges.
const PRIVILEGES_HELP: &str = "the suite `net` creates a network namespace with a tap: run it as root, or allow users to do that \
                    (user namespaces, and `chmod 666 /dev/net/tun`)";

/// Returns the command that creates the namespaces.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    // A user other than root becomes root of a new user namespace, if the host allows that.
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command
}

fn is_root() -> bool {
    let id = process::output(Command::new("id").arg("-u")).unwrap_or_default();
    id.trim() == "0"
}

/// Makes sure that this user may create the namespaces and a tap.
///
/// # Errors
///
/// Fails if that is not permitted. The error says how to permit it.
pub(super) fn check() -> Result<()> {
    ensure!(process::find("unshare").is_some(), "`unshare`, of the package util-linux, is not installed");
    let mut trial = unshare();
    trial.args(["sh", "-c", &format!("exec 3<>{TUN} && ip tuntap add trial mode tap")]);
    let output = trial.stdin(Stdio::null()).output().context("cannot start `unshare`")?;
    if output.status.success() {
        return Ok(());
    }
    bail!("{}{PRIVILEGES_HELP}", String::from_utf8_lossy(&output.stderr));
}

/// Starts this executable again in the namespaces, with a folder for temporary files.
pub(super) fn run(arguments: &[OsString], folder: &Path) -> Result<()> {
    // Without a handler, SIGINT would end this process at once, and the folder would stay.
    signals::record().context("cannot handle signals")?;
    let program = env::current_exe().context("cannot find this executable")?;
    let mut command = unshare();
    command.arg(program).arg(COMMAND).args(arguments).env("TMPDIR", folder).stdin(Stdio::piped());
    let mut child = command.spawn().context("cannot start `unshare`")?;
    // The pipe is closed at the end of this function, or when this process ends.
    let _pipe = child.stdin.take();
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for the measurements")? {
            break status;
        }
        if signals::exit_code().is_some() {
            child.kill().context("cannot end the measurements")?;
        }
        thread::sleep(POLL_INTERVAL);
    };
    ensure!(signals::exit_code().is_none(), "interrupted");
    ensure!(status.success(), "the measurements failed ({status})");
    Ok(())
}

/// Starts a thread that exits this process, the init of its PID namespace, as soon as the process outside has
/// exited.
pub(super) fn end_with_parent() {
    thread::spawn(|| {
        let _: io::Result<usize> = io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
}
