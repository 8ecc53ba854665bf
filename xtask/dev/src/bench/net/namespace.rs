//! The network and the processes of the suite are a world of their own, of which nothing remains when it ends.
//!
//! `unshare` makes a network namespace and a process namespace, and starts this program again in them as their first process: the
//! kernel ends all others when that one ends, and removes devices when the last process of their network has ended. The first
//! process ends when its standard input does, which is a pipe from the one outside: so it ends with that one, even if it is killed.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use xtask::process;
use xtask::qemu::INTERRUPTED;

/// The device by which programs make taps.
const TUN: &str = "/dev/net/tun";

/// The command of this program that carries out the plan.
const COMMAND: &str = "net-bench";

/// How often the one inside is looked at.
const POLL: Duration = Duration::from_millis(20);

/// What to do about a lack of rights.
const HELP: &str = "the suite `net` makes a network namespace with a tap: run it as root, or allow users to do that \
                    (user namespaces, and `chmod 666 /dev/net/tun`)";

/// What makes the namespaces.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    // Harmless to root; others become root of a user namespace, if the host lets them.
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

/// Makes sure that all this is permitted.
///
/// # Errors
///
/// It is not; the error says what to do.
pub(super) fn check() -> Result<()> {
    ensure!(process::find("unshare").is_some(), "there is no program `unshare`, of the package util-linux");
    let mut trial = unshare();
    trial.args(["sh", "-c", &format!("exec 3<>{TUN} && ip tuntap add trial mode tap")]);
    let output = trial.stdin(Stdio::null()).output().context("cannot start `unshare`")?;
    if output.status.success() {
        return Ok(());
    }
    bail!("{}{HELP}", String::from_utf8_lossy(&output.stderr));
}

/// Starts this program again, inside, with a folder for temporary files.
pub(super) fn run(arguments: &[OsString], folder: &Path) -> Result<()> {
    // By default this process would end at once, and the folder would stay.
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).context("cannot handle Ctrl-C")?;
    let program = env::current_exe().context("this program has no file")?;
    let mut command = unshare();
    command.arg(program).arg(COMMAND).args(arguments).env("TMPDIR", folder).stdin(Stdio::piped());
    let mut child = command.spawn().context("cannot start `unshare`")?;
    // The pipe is closed at the end of this function, or of this process.
    let _pipe = child.stdin.take();
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for the measurements")? {
            break status;
        }
        if INTERRUPTED.load(Ordering::Relaxed) {
            child.kill().context("cannot end the measurements")?;
        }
        thread::sleep(POLL);
    };
    ensure!(!INTERRUPTED.load(Ordering::Relaxed), "interrupted");
    ensure!(status.success(), "the measurements failed ({status})");
    Ok(())
}

/// Ends this process, the first one of its namespace, as soon as the one outside has ended.
pub(super) fn end_with_parent() {
    thread::spawn(|| {
        let _: io::Result<usize> = io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
}
