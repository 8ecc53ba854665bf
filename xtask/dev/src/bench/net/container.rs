//! Rootless containers: processes of Linux whose network is a program in user space, like that of a guest
//! behind `-p`.
//!
//! A user without privileges cannot connect a container to a device of the host. The container has a network
//! namespace with a tap instead, and slirp4netns or pasta translates the packets of the tap to sockets of the
//! host. podman 4 has two ways from a port of the host to the container: a proxy of its own (the default) and
//! slirp4netns. podman 5 uses pasta. Here pasta is started without podman, because the podman of Debian 12
//! does not support it; the network is the same.
//!
//! All of them run in a new user namespace, so they are rootless even if root runs the suite. They also run
//! in a new PID namespace, and [`kill`] ends all its processes.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command};

use anyhow::{Context, Result};
use hermit_toolchain::process;
use rustix::process::{Pid, Signal, kill_process};

use super::link::{CONGESTION_CONTROL, DEFAULT_CONTROL};
use super::plan::NetBenchPlan;
use super::server_program::ServerProgram;
use super::system::System;
use crate::children::children;

/// The systems that are containers, with the programs that they need.
const PROGRAMS: [(&[System], &[&str]); 2] =
    [(&[System::Podman, System::Slirp], &["podman", "slirp4netns"]), (&[System::Pasta], &["pasta"])];

/// Network of a container whose ports podman's proxy forwards.
pub(super) const PROXY: &str = "slirp4netns:port_handler=rootlesskit";

/// Network of a container whose ports slirp4netns forwards.
pub(super) const SLIRP: &str = "slirp4netns:port_handler=slirp4netns";

/// podman's configuration, which replaces those of the host and of the user. File locks leave nothing in
/// `/dev/shm`. Without a log of events, journald is not needed.
const CONFIGURATION: &str =
    "[engine]\nlock_type = \"file\"\nevents_logger = \"none\"\ncgroup_manager = \"cgroupfs\"\n";

/// Variables by which podman recognises that it already runs in a user namespace, and is rootless. Any user
/// ID except 0 will do.
const ROOTLESS: [(&str, &str); 2] =
    [("_CONTAINERS_USERNS_CONFIGURED", "done"), ("_CONTAINERS_ROOTLESS_UID", "1")];

/// Mount point of the file system in which podman has its files. It is private to the container and gone with
/// it. podman's UNIX sockets are in it, whose paths have at most 107 bytes.
const STATE: &str = "/mnt";

/// Returns the systems that cannot be measured because a program is not installed, with that program.
pub(super) fn missing() -> impl Iterator<Item = (&'static [System], &'static str)> {
    let missing =
        |programs: &[&'static str]| programs.iter().copied().find(|program| process::find(program).is_none());
    PROGRAMS.into_iter().filter_map(move |(systems, programs)| Some((systems, missing(programs)?)))
}

/// Returns the command of a container. Its root file system is in `folder`.
pub(super) fn podman(
    plan: &NetBenchPlan,
    program: ServerProgram,
    folder: &Path,
    network: &str,
) -> Result<Command> {
    let (root, configuration) = (folder.join("root"), folder.join("containers.conf"));
    fs::create_dir(&root).context("cannot make a folder for podman")?;
    fs::write(&configuration, CONFIGURATION).context("cannot configure podman")?;
    fs::copy(program.of(&plan.programs)?, root.join(program.name())).context("cannot fill the container")?;

    let script = format!("mount -t tmpfs -o mode=0700 podman {STATE} && exec podman \"$@\"");
    let mut command = rootless("sh");
    command.args(["-c", &script, "sh"]);
    command.envs(ROOTLESS).env("HOME", STATE).env("XDG_RUNTIME_DIR", STATE);
    command.env("CONTAINERS_CONF", configuration);
    // podman prefers crun, which does not start containers on a host with cgroups of both versions.
    if process::find("runc").is_some() {
        command.args(["--runtime", "runc"]);
    }
    // A hosted virtual machine may forbid to raise limits to podman's defaults.
    command.args(["run", "--ulimit", "host", "--network", network]);
    command.arg(format!("--sysctl=net.ipv4.tcp_congestion_control={CONGESTION_CONTROL}"));
    program.ports().for_each(|port| {
        command.arg(format!("--publish={port}:{port}"));
    });
    command.arg("--rootfs").arg(root).arg(format!("/{}", program.name())).args(program.arguments());
    Ok(command)
}

/// Returns the command of a process behind pasta.
pub(super) fn pasta(plan: &NetBenchPlan, program: ServerProgram) -> Result<Command> {
    let mut command = rootless("pasta");
    let ports: Vec<_> = program.ports().map(|port| port.to_string()).collect();
    command.args(["--foreground", "--config-net", "--tcp-ports", &ports.join(",")]);
    command.args(["--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none", "--"]);
    let script = format!("echo {CONGESTION_CONTROL} > {DEFAULT_CONTROL} && exec \"$@\"");
    command.args(["sh", "-c", &script, "sh"]).arg(program.of(&plan.programs)?).args(program.arguments());
    Ok(command)
}

/// Returns a command that starts a program in new user and PID namespaces.
fn rootless(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", program]);
    command
}

/// Kills a process that [`podman`] or [`pasta`] has started, and all of the processes of its PID namespace.
pub(super) fn kill(unshare: &mut Child) -> io::Result<()> {
    let inits = children(unshare.id())?;
    if inits.is_empty() {
        return unshare.kill();
    }
    // `unshare` must not be killed: it waits for init, which the kernel lets end after all other processes of
    // the namespace. So their ports are free after `unshare` has ended.
    for init in inits.into_iter().filter_map(|id| Pid::from_raw(id.try_into().ok()?)) {
        kill_process(init, Signal::KILL)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::{kill, rootless};

    #[test]
    fn kill_ends_all_processes_of_the_namespace() {
        let mut command = rootless("sh");
        // The shell in the background has the pipe until it is killed.
        command.args(["-c", "sleep 60 & echo; wait"]).stdout(Stdio::piped());
        let mut unshare = command.spawn().unwrap();
        let mut output = unshare.stdout.take().unwrap();
        // The output is empty if this host does not permit the namespaces.
        if output.read(&mut [0]).unwrap() > 0 {
            kill(&mut unshare).unwrap();
        }
        unshare.wait().unwrap();
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
    }
}
