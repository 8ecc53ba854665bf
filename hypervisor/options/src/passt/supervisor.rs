//! The process that ends passt.
//!
//! passt exits when the other end of its socket is closed, with an exception: version 2023-03 of Debian 12
//! may miss that under load, and then runs for ever on all of a CPU. uhyve cannot end it, as it may be killed
//! itself. A parent death signal (`PR_SET_PDEATHSIG`) cannot, either: passt forks, and changes its user if
//! started by root, which clears the signal. So passt has a parent that outlives uhyve. It waits until the
//! socket is closed, and then for passt to exit, or kills it. It waits from passt's start on, because passt
//! may hang there. Started by root, it takes passt's user when passt runs, and so has no more rights than
//! passt.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{self, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Gid, Pid, PidfdFlags, Signal, Uid, geteuid, getpid, pidfd_open, pidfd_send_signal, set_child_subreaper,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::{set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::PROGRAM;
use crate::children::children;

/// `argv[0]` of the supervisor.
pub(super) const NAME: &str = "passt-supervisor";

/// Text that the supervisor writes to standard output when passt runs in the background, before the number of
/// passt's user.
pub(super) const READY: &str = "ready ";

/// Exit code of the supervisor if passt is not installed, as of a shell.
pub(super) const NOT_FOUND: u8 = 127;

/// Exit code of the supervisor if it fails itself.
const FAILED: u8 = 1;

/// Time in which passt has to process the frames that remain in its socket, and to exit.
const EXIT_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Supervises passt and returns the exit code of this process, if [`super::start`] started this process for that purpose.
/// Returns `None` for any other process.
#[must_use]
pub fn supervise() -> Option<ExitCode> {
    let mut arguments = env::args_os();
    arguments.next().filter(|name| name == NAME)?;
    Some(run(arguments).unwrap_or_else(|error| {
        // Without a reader of standard error there is none to tell.
        let _: io::Result<()> = writeln!(io::stderr(), "{error}");
        ExitCode::from(FAILED)
    }))
}

/// Starts passt with the socket that is standard input, and returns when passt has exited.
fn run(arguments: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    // The duplicate is inherited: `dup` does not set FD_CLOEXEC.
    let (socket, null) =
        (rustix::io::dup(io::stdin())?, File::options().read(true).write(true).open("/dev/null")?);
    dup2_stdin(&null)?;
    // `ps` and `pkill` tell this process from the one that it is a copy of. The kernel keeps 15 bytes.
    rustix::thread::set_name(c"passt-superviso")?;
    // passt's second process becomes a child of this one when the first exits.
    set_child_subreaper(Some(getpid()))?;
    let mut passt = Command::new(PROGRAM);
    passt.args(["--quiet", "--fd", &socket.as_raw_fd().to_string()]).args(arguments);
    let mut passt = match passt.stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
        Ok(passt) => passt,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ExitCode::from(NOT_FOUND)),
        Err(error) => return Err(error),
    };
    // It exits when it has started, or when it is killed because uhyve has ended.
    end_with(&socket, &pidfd_open(Pid::from_child(&passt), PidfdFlags::empty())?)?;
    if !passt.wait()?.success() {
        return Ok(ExitCode::from(FAILED));
    }
    // The only child is passt's second process. Its identifier is not reused, because this process does not
    // wait for it.
    let passt = children(process::id())?.into_iter().find_map(|passt| Pid::from_raw(passt.try_into().ok()?));
    let Some(passt) = passt else { return Ok(ExitCode::from(FAILED)) };
    let pidfd = pidfd_open(passt, PidfdFlags::empty())?;
    let user = take_user(passt)?;
    // If uhyve has been killed meanwhile, there is no reader.
    let _: io::Result<()> =
        write!(io::stdout(), "{READY}{}", user.as_raw()).and_then(|()| io::stdout().flush());
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    end_with(&socket, &pidfd)?;
    Ok(ExitCode::SUCCESS)
}

/// Takes the user and the group of a process if this one is root's, and so loses root's capabilities. Returns
/// the user.
fn take_user(process: Pid) -> io::Result<Uid> {
    set_no_new_privs(true)?;
    let own = geteuid();
    if !own.is_root() {
        // passt changes its user only if root starts it.
        return Ok(own);
    }
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()))?;
    let no_user = || io::Error::other("the user of passt is not known");
    let (user, group) = (id(&status, "Uid:").ok_or_else(no_user)?, id(&status, "Gid:").ok_or_else(no_user)?);
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    if user == own {
        // passt stays the root of a user namespace, where setgroups(2) may be denied.
        return Ok(user);
    }
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    Ok(user)
}

/// The real ID in a line of a process's status (proc(5)).
fn id(status: &str, name: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Waits until the peer of the socket is closed, and ends passt.
fn end_with(socket: &OwnedFd, passt: &OwnedFd) -> io::Result<()> {
    let exit = || PollFd::new(passt, PollFlags::IN);
    // poll(2) reports the end of the connection without being asked. Frames, which it is not asked for, wake passt only.
    wait(&mut [PollFd::new(socket, PollFlags::empty()), exit()], None)?;
    // If passt has exited, this does not wait.
    if wait(&mut [exit()], Some(&EXIT_TIMEOUT))? { Ok(()) } else { kill(passt.as_fd()) }
}

/// Waits for an event; returns whether there was one before the timeout.
fn wait(events: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<bool> {
    loop {
        match poll(events, timeout) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn kill(passt: BorrowedFd<'_>) -> io::Result<()> {
    match pidfd_send_signal(passt, Signal::KILL) {
        // It has exited meanwhile.
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{end_with, id};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    fn sleep(seconds: &str) -> (Child, OwnedFd) {
        let child = Command::new("sleep").arg(seconds).stdin(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        (child, pidfd_open(pid, PidfdFlags::empty()).unwrap())
    }

    #[test]
    fn ids_of_a_status_are_the_real_ones() {
        let status = "Name:\tpasst\nUid:\t1000\t0\t0\t0\nGid:\t100\t0\t0\t0\n";
        assert_eq!(
            (id(status, "Uid:"), id(status, "Gid:"), id(status, "Pid:")),
            (Some(1000), Some(100), None)
        );
    }

    #[test]
    fn process_that_ignores_the_end_of_its_socket_is_killed() {
        let (mut child, pidfd) = sleep("1000");
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"a frame that passt does not read").unwrap();
        drop(ours);
        end_with(&theirs.into(), &pidfd).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn process_that_exits_ends_the_wait_although_its_socket_is_open() {
        let (mut child, pidfd) = sleep("0");
        let (ours, theirs) = UnixStream::pair().unwrap();
        end_with(&theirs.into(), &pidfd).unwrap();
        assert!(child.wait().unwrap().success());
        drop(ours);
    }
}
