//! Hosts without landlock: a seccomp filter, which uhyve inherits, denies it.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::process::{Command, Output};
use std::thread;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use crate::guest::GuestBuilder;
use crate::host::{Host, Outcome};
use crate::program;

/// Runs a command where `landlock_create_ruleset` fails with ENOSYS, as on a kernel without landlock.
fn without_landlock(mut command: Command) -> Output {
    let calls = BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]);
    let refuse = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, refuse, ARCH.try_into().unwrap()).unwrap();
    let filter = BpfProgram::try_from(filter).unwrap();
    // The filter holds for one thread and the processes that it starts.
    let thread = thread::spawn(move || {
        apply_filter(&filter).unwrap();
        command.output().unwrap()
    });
    thread.join().unwrap()
}

#[test]
fn guest_as_a_process_is_refused_without_landlock_unless_allowed() {
    let image = GuestBuilder::image(7, |_| Ok(()));
    let refused = Outcome::from(without_landlock(Host::new(&image, &[]).command()));
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.errors.contains("landlock is missing"), "{refused:?}");
    assert!(refused.errors.contains("--allow-partial-sandbox"), "{refused:?}");
    let options = ["--allow-partial-sandbox", "--quiet"];
    for _ in 0..2 {
        let allowed = Outcome::from(without_landlock(Host::new(&image, &options).command()));
        assert_eq!(allowed.code, Some(7), "{allowed:?}");
        assert!(allowed.errors.contains("warning: sandbox: landlock is missing"), "{allowed:?}");
    }
}

#[test]
fn protection_that_is_required_and_missing_is_refused() {
    // The check is before anything is opened: neither the image nor the engine has to be there.
    for engine in ["process", "kvm"] {
        let mut uhyve = Command::new(program::uhyve());
        uhyve.args(["--engine", engine, "--allow-partial-sandbox", "--require", "sandbox,landlock", "/none"]);
        let refused = Outcome::from(without_landlock(uhyve));
        assert_eq!(refused.code, Some(125), "{refused:?}");
        assert!(refused.errors.contains("error: --require: landlock is missing"), "{refused:?}");
    }
    let image = GuestBuilder::image(7, |_| Ok(()));
    for (options, reason) in [
        (&["--require", "kvm"][..], "as a process, not on KVM"),
        (&["--require", "jail"], "add --jail"),
        (&["--require", "sandbox", "--no-sandbox"], "--no-sandbox"),
    ] {
        let refused = Outcome::from(Host::new(&image, options).command().output().unwrap());
        assert_eq!(refused.code, Some(125), "{refused:?}");
        assert!(refused.errors.contains(reason), "{refused:?}");
    }
    let present = Host::new(&image, &["--require", "sandbox,landlock"]).command().output().unwrap();
    assert_eq!(present.status.code(), Some(7), "{present:?}");
}

#[test]
fn check_prints_the_level_of_landlock() {
    let check = || {
        let mut uhyve = Command::new(program::uhyve());
        uhyve.arg("--check");
        uhyve
    };
    let found = Outcome::from(without_landlock(check()));
    assert!(found.text.contains("landlock: missing"), "{found:?}");
    assert!(!found.text.contains("process: works"), "{found:?}");
    let found = Outcome::from(check().output().unwrap());
    assert!(found.text.contains("landlock: ") && !found.text.contains("landlock: missing"), "{found:?}");
    let mut required = check();
    required.args(["--require", "landlock"]);
    let found = Outcome::from(without_landlock(required));
    assert!(found.code == Some(125) && found.errors.contains("--require: landlock is missing"), "{found:?}");
}
