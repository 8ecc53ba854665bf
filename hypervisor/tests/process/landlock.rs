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
    // The filter holds for one thread and what it starts.
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
    let options = ["--allow-partial-sandbox"];
    let notes = tempfile::tempdir().unwrap();
    let allowed = || {
        let host = Host::new(&image, &options);
        let mut command = host.command();
        command.env("XDG_RUNTIME_DIR", notes.path());
        Outcome::from(without_landlock(command))
    };
    let (first, second) = (allowed(), allowed());
    assert_eq!((first.code, second.code), (Some(7), Some(7)), "{first:?}\n{second:?}");
    assert!(first.errors.contains("landlock is missing"), "{first:?}");
    assert!(!second.errors.contains("landlock"), "the note is printed once in each boot: {second:?}");
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
}
