//! Guests as processes in a jail.

use std::fs;
use std::io::Read;
use std::process::{Child, Command};

use rustix::process::Pid;

use crate::guest::GuestBuilder;
use crate::host::{Host, Outcome, run};
use crate::jail_checks::{self, IDS, check, has_own_namespace};
use crate::program;
use crate::shutdown::{spinning_guest, start_spinning, wait_for_end};

/// Waits until a guest spins, and returns the ID of its process.
fn guest_of(uhyve: &mut Child) -> i32 {
    uhyve.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let own = uhyve.id();
    fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap().trim().parse().unwrap()
}

#[test]
fn jailed_processes_have_nothing_of_the_host() {
    if !jail_checks::is_possible() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("file"), "").unwrap();
    let with_root = format!("{IDS},{}", root.path().display());
    for (jail, files) in [(IDS, &[][..]), (&with_root, &["file"])] {
        let host = Host::new(&spinning_guest(), &["--cpus", "3"]);
        let mut uhyve = host.command().args(["--jail", jail]).spawn().unwrap();
        let guest = guest_of(&mut uhyve);
        let own = uhyve.id().cast_signed();
        check(own, files);
        check(guest, files);
        assert!(has_own_namespace(guest, "pid") && !has_own_namespace(own, "pid"));
        let limits = fs::read_to_string(format!("/proc/{own}/limits")).unwrap();
        for limit in ["Max processes 0 0", "Max open files 512 512"] {
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(limits.lines().any(|line| words(line).starts_with(limit)), "{limit}: {limits}");
        }
        uhyve.kill().unwrap();
        uhyve.wait().unwrap();
    }
}

#[test]
fn jailed_guest_runs_with_and_without_a_debugger() {
    if jail_checks::is_possible() {
        let outcome = run(&GuestBuilder::image(7, |_| Ok(())), &["--cpus", "2", "--jail", IDS]);
        assert_eq!((outcome.code, &*outcome.errors), (Some(7), ""));
    }
}

#[test]
fn jailed_guest_is_killed_with_uhyve() {
    if jail_checks::is_possible() {
        let (mut uhyve, guest) = start_spinning(&["--jail", IDS]);
        uhyve.kill().unwrap();
        uhyve.wait().unwrap();
        wait_for_end(guest);
    }
}

/// A system call that the filter does not allow kills a process even if it is the first one of a PID
/// namespace.
#[test]
fn jailed_guest_that_opens_a_file_is_killed() {
    if jail_checks::is_possible() {
        let image = GuestBuilder::image(1, |guest| guest.call(libc::SYS_open, [0.into(), 0.into()]));
        let outcome = run(&image, &["--jail", IDS]);
        assert_eq!(outcome.code, Some(159), "{outcome:?}");
    }
}

#[test]
fn jail_that_cannot_be_entered_is_refused_with_the_reason() {
    let refused = |program: &mut Command, reason: &str| {
        let outcome = Outcome::from(program.output().unwrap());
        assert_eq!(outcome.code, Some(125), "{outcome:?}");
        assert!(outcome.errors.contains(reason), "{reason}: {outcome:?}");
    };
    let host = Host::new(&GuestBuilder::image(7, |_| Ok(())), &[]);
    let mut unprivileged = Command::new("setpriv");
    unprivileged.args(["--bounding-set=-sys_admin", "--inh-caps=-all"]);
    unprivileged.arg(host.command().get_program()).args(host.command().get_args()).args(["--jail", IDS]);
    if jail_checks::is_possible() {
        refused(&mut unprivileged, "CAP_SYS_ADMIN is missing: start uhyve as root");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for (root, reason) in
            [(file.as_path(), "is no folder for a root"), ("/tmp".as_ref(), "can be written by others")]
        {
            refused(host.command().arg(format!("--jail={IDS},{}", root.display())), reason);
        }
    } else {
        refused(host.command().args(["--jail", IDS]), "is missing: start uhyve as root");
    }
    let outcome = Outcome::from(host.command().args(["--jail", "root:root"]).output().unwrap());
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.errors.contains("`root` is no ID of a user"), "{outcome:?}");
}

#[test]
fn check_enters_the_jail_and_describes_it() {
    let text = |arguments: &[&str]| {
        let output = Command::new(program::uhyve()).arg("--check").args(arguments).output().unwrap();
        Outcome::from(output).text
    };
    if jail_checks::is_possible() {
        assert!(text(&[]).contains("jail: works; it is in force with --jail only"));
        let found = text(&["--jail", IDS]);
        assert!(found.contains("jail: works: user 61234, group 61235, an empty root folder"), "{found}");
        assert!(text(&["--jail", "1:1,/none"]).contains("jail: /none is no folder"));
    } else {
        assert!(text(&[]).contains("is missing: start uhyve as root"));
    }
}

/// In a user namespace whose only user is root, the jail cannot take another user.
#[test]
fn check_takes_the_user_of_the_jail() {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user"]);
    let is_possible = Command::new("unshare").args(["--user", "--map-root-user", "true"]).status();
    if !is_possible.is_ok_and(|status| status.success()) {
        println!("skipped: this host has no user namespaces");
        return;
    }
    let check = unshare.arg(program::uhyve()).args(["--check", "--jail", IDS]).output().unwrap();
    let outcome = Outcome::from(check);
    assert!(outcome.text.contains("jail: cannot "), "{outcome:?}");
}

#[test]
fn guest_without_jail_stays_in_the_namespaces_of_the_host() {
    let (mut uhyve, guest) = start_spinning(&[]);
    for namespace in ["mnt", "net", "ipc", "uts", "cgroup", "pid", "user"] {
        assert!(!has_own_namespace(Pid::as_raw_pid(guest), namespace), "{namespace}");
    }
    uhyve.kill().unwrap();
    uhyve.wait().unwrap();
}
