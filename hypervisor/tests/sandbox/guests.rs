//! Guests in a confined hypervisor. All its threads must be confined before the guest starts.

use std::env;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::program;

/// Engine of the guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Kvm,
    Process,
}

impl Engine {
    /// The engine that `HERMIT_TEST_ENGINE` names; by default KVM.
    pub(crate) fn from_environment() -> Self {
        match env::var("HERMIT_TEST_ENGINE").as_deref() {
            Ok("process") => Self::Process,
            _ => Self::Kvm,
        }
    }

    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Process => "process",
        }
    }

    /// Names of the threads of a machine with two vCPUs and two output streams, sorted.
    fn threads(self) -> &'static [&'static str] {
        match self {
            Self::Kvm => &["devices", "stderr", "stdout", "uhyve", "vcpu 0", "vcpu 1"],
            // The vCPUs are threads of the guest's process: one thread of uhyve serves all of them.
            Self::Process => &["devices", "stderr", "stdout", "uhyve", "vcpu 0"],
        }
    }

    /// Prefixes of the targets of file descriptors that only this engine has.
    fn descriptors(self) -> &'static [&'static str] {
        match self {
            Self::Kvm => &["/dev/kvm", "anon_inode:kvm-vm", "anon_inode:kvm-vcpu"],
            Self::Process => &["/memfd:uhyve-memory", "anon_inode:[pidfd]", "anon_inode:seccomp"],
        }
    }
}

/// Mounts a /dev/kvm that every user may open, in a mount namespace of its own, and continues as an
/// unprivileged user.
const AS_USER: &str = r#"
    set -e
    mknod "$1/kvm" c 10 232
    chmod 666 "$1/kvm"
    mount --bind "$1/kvm" /dev/kvm
    shift
    exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
"#;

/// Returns the path of an image. If guests cannot run on this host, prints the reason and returns `None`.
pub(crate) fn image(name: &str) -> Option<PathBuf> {
    let Some(folder) = env::var_os("HERMIT_TEST_IMAGES") else {
        eprintln!("skipped: HERMIT_TEST_IMAGES is not set");
        return None;
    };
    let kvm = || File::options().read(true).write(true).open("/dev/kvm");
    if Engine::from_environment() == Engine::Kvm
        && let Err(error) = kvm()
    {
        eprintln!("skipped: /dev/kvm: {error}");
        return None;
    }
    Some(Path::new(&folder).join(name))
}

/// User that runs the hypervisor.
#[derive(Clone, Copy, Debug)]
enum User {
    Current,
    Unprivileged,
}

/// Commands that run the hypervisor as each available user, with two vCPUs and an inherited file descriptor
/// 7.
fn hypervisors() -> Vec<(User, Command, tempfile::TempDir)> {
    let mut users = vec![User::Current];
    if geteuid().is_root() {
        let can_mount = Command::new("unshare").args(["--mount", "true"]).status();
        if can_mount.is_ok_and(|status| status.success()) {
            users.push(User::Unprivileged);
        } else {
            eprintln!("skipped: as an ordinary user: no mounts here");
        }
    }
    users.into_iter().map(hypervisor).collect()
}

fn hypervisor(user: User) -> (User, Command, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command.args(["60", "sh", "-c", "exec \"$@\" 7</dev/null", "sh"]);
    if matches!(user, User::Unprivileged) {
        command.args(["unshare", "--mount", "sh", "-c", AS_USER, "sh"]).arg(folder.path());
    }
    command.arg(program::uhyve()).args(["--engine", Engine::from_environment().option(), "--cpus", "2"]);
    (user, command, folder)
}

/// Returns the process that `timeout` or `unshare` has started.
fn only_child(child: &Child) -> Option<Pid> {
    let id = child.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    Pid::from_raw(children.trim().parse().ok()?)
}

/// Returns the value of a line in /proc/PID/task/TID/status.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map_or("missing", str::trim)
}

fn check_threads(process: Pid, user: User) {
    let mut names = Vec::new();
    for task in fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        names.push(field(&status, "Name").to_owned());
        assert_eq!(field(&status, "Seccomp"), "2", "{user:?}: {status}");
        assert_eq!(field(&status, "NoNewPrivs"), "1", "{user:?}: {status}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(field(&status, set), "0000000000000000", "{user:?}: {set}");
        }
        if matches!(user, User::Current) && geteuid().is_root() {
            assert_eq!(field(&status, "CapBnd"), "0000000000000000");
        }
    }
    // Removes KVM's kernel threads in the process.
    names.retain(|name| !name.starts_with("kvm-"));
    names.sort();
    assert_eq!(names, Engine::from_environment().threads());
}

/// Asserts that the process has only the file descriptors that it needs, and duplicates of 0, 1 and 2.
fn check_descriptors(process: Pid) {
    const KNOWN: [&str; 2] = ["anon_inode:[eventfd]", "anon_inode:[eventpoll]"];
    /// A socket pair for each of the three signals that end the machine.
    const SOCKETS: usize = 6;
    let folder = PathBuf::from(format!("/proc/{process}/fd"));
    let standard = ["0", "1", "2"].map(|number| fs::read_link(folder.join(number)).unwrap());
    let mut sockets = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let target = fs::read_link(&path).unwrap();
        let name = target.to_str().unwrap();
        sockets += usize::from(name.starts_with("socket:"));
        let mut known = KNOWN.iter().chain(Engine::from_environment().descriptors());
        let is_known = known.any(|known| name.starts_with(known)) || name.starts_with("socket:");
        assert!(standard.contains(&target) || is_known, "{} is {name}", path.display());
    }
    assert_eq!(sockets, SOCKETS);
}

#[test]
fn all_threads_are_confined_at_the_first_byte_of_output() {
    let Some(image) = image("stdin") else { return };
    for (user, mut command, _folder) in hypervisors() {
        let mut child = command.arg(&image).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        // The guest runs until the end of its input.
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"hello\n").unwrap();
        let mut first = [0];
        output.read_exact(&mut first).unwrap();
        let process = only_child(&child).unwrap();
        kill_process(process, Signal::STOP).unwrap();
        check_threads(process, user);
        check_descriptors(process);
        kill_process(process, Signal::CONT).unwrap();
        drop(input);
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert!(first == *b"H" && rest.starts_with("ELLO\n"), "{user:?}: {rest}");
        assert!(child.wait().unwrap().success(), "{user:?}");
    }
}

#[test]
fn guest_with_threads_runs_to_its_end() {
    let Some(image) = image("threads") else { return };
    for (user, mut command, _folder) in hypervisors() {
        let output = command.arg(&image).args(["--", "mutex"]).output().unwrap();
        assert!(output.status.success(), "{user:?}: {output:?}");
        assert_eq!(output.stdout, b"ok\n", "{user:?}: {output:?}");
    }
}

#[test]
fn option_no_sandbox_runs_the_guest() {
    let Some(image) = image("hello_world") else { return };
    let (_, mut command, _folder) = hypervisor(User::Current);
    let output = command.arg("--no-sandbox").arg(&image).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn confined_console_reads_input() {
    let Some(image) = image("stdin") else { return };
    for (user, mut command, _folder) in hypervisors() {
        command.args(["--timeout", "20"]).arg(&image).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"some text\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{user:?}: {output:?}");
        assert!(output.stdout.starts_with(b"SOME TEXT\n"), "{user:?}: {output:?}");
    }
}

#[test]
fn confined_block_device_reads_and_writes() {
    let Some(image) = image("disk") else { return };
    for (user, mut command, _folder) in hypervisors() {
        let disk = tempfile::NamedTempFile::new().unwrap();
        disk.as_file().set_len(16 << 10).unwrap();
        disk.as_file().set_permissions(Permissions::from_mode(0o666)).unwrap();
        command.arg("--block").arg(disk.path()).arg(&image).args(["--", "check", "/dev/vda"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{user:?}: {output:?}");
        assert!(fs::read(disk.path()).unwrap().iter().any(|&byte| byte != 0), "{user:?}");
    }
}

#[test]
fn statistics_at_the_end_need_no_files() {
    let Some(image) = image("hello_world") else { return };
    for (user, mut command, _folder) in hypervisors() {
        let output = command.args(["--stats", "--verbose"]).arg(&image).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{user:?}: {errors}");
        assert!(errors.contains("uhyve: ran for") && errors.contains("kB resident"), "{user:?}: {errors}");
    }
}

#[test]
fn signal_and_timeout_end_the_machine() {
    let Some(image) = image("stdin") else { return };
    for (user, mut command, _folder) in hypervisors() {
        // Standard output is not the file of standard error.
        let mut child = command.arg(&image).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Keeps the pipe open, so that the input does not end.
        let _input = child.stdin.take();
        while !threads_are_confined(&child) {
            assert!(child.try_wait().unwrap().is_none(), "{user:?}: uhyve has ended before the signal");
            thread::sleep(Duration::from_millis(1));
        }
        kill_process(only_child(&child).unwrap(), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(143), "{user:?}");
    }
    let (_, mut command, _folder) = hypervisor(User::Current);
    command.args(["--timeout", "0.3"]).arg(&image).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _input = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(124));
}

/// Returns true if all threads exist and have a system-call filter.
fn threads_are_confined(child: &Child) -> bool {
    let tasks = only_child(child).and_then(|process| fs::read_dir(format!("/proc/{process}/task")).ok());
    let statuses =
        tasks.into_iter().flatten().flatten().flat_map(|task| fs::read_to_string(task.path().join("status")));
    let confined = statuses.filter(|status| field(status, "Seccomp") == "2").count();
    confined >= Engine::from_environment().threads().len()
}
