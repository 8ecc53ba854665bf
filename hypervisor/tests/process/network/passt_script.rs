//! passt replaced by shell scripts: how it is started, watched, and ended.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::{is_running, wait};
use crate::echo::echo;
use crate::host::{Host, Outcome};

/// A shell script in place of passt.
struct FakePasst(TempDir);

impl FakePasst {
    /// Installs a script. Its variable `$OUT` is the path of a file for its output.
    fn new(script: &str) -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        let program = fake.0.path().join("passt");
        fs::write(
            &program,
            format!("#!/bin/sh\n[ \"$1\" = --help ] && exit\nOUT={}\n{script}\n", fake.file().display()),
        )
        .unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
        fake
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("out")
    }

    /// Text of the script's file.
    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap_or_default().trim().to_owned()
    }

    /// Command that starts uhyve with these options and this passt.
    fn uhyve(&self, host: &Host, options: &[&str]) -> Command {
        let mut uhyve = host.command();
        let path = format!("{}:{}", self.0.path().display(), env::var("PATH").unwrap());
        uhyve.args(options).env("PATH", path);
        uhyve
    }
}

/// Script that leaves a process in the background, as passt does, and writes its process ID.
const BACKGROUND: &str = "sleep 1000 <&- >&- 2>&- &\necho $! > $OUT";

/// Version 2023-03 of passt may miss that its socket is closed.
#[test]
fn passt_that_misses_the_end_of_uhyve_is_killed() {
    let passt = FakePasst::new(BACKGROUND);
    let host = Host::new(&echo(0), &[]);
    let mut uhyve = passt.uhyve(&host, &["--net", "passt"]).spawn().unwrap();
    wait(|| is_running(&passt.text()));
    uhyve.kill().unwrap();
    uhyve.wait().unwrap();
    wait(|| !is_running(&passt.text()));
}

#[test]
fn passt_that_hangs_at_its_start_is_killed_with_uhyve() {
    let passt = FakePasst::new("echo $$ > $OUT\nexec sleep 1000");
    let host = Host::new(&echo(0), &[]);
    let mut uhyve = passt.uhyve(&host, &["--net", "passt"]).spawn().unwrap();
    wait(|| is_running(&passt.text()));
    uhyve.kill().unwrap();
    uhyve.wait().unwrap();
    wait(|| !is_running(&passt.text()));
}

#[test]
fn passt_has_no_variable_of_uhyve_but_its_path() {
    let passt = FakePasst::new(&format!("env > $OUT.env\n{BACKGROUND}"));
    let host = Host::new(&echo(0), &[]);
    let mut uhyve = passt.uhyve(&host, &["--net", "passt", "--env", "SECRET"]);
    let mut uhyve = uhyve.env("SECRET", "secret").spawn().unwrap();
    wait(|| is_running(&passt.text()));
    uhyve.kill().unwrap();
    uhyve.wait().unwrap();
    let variables = fs::read_to_string(passt.file().with_extension("env")).unwrap();
    // The shell sets variables of its own.
    let names: Vec<_> = variables.lines().filter_map(|line| line.split_once('=').map(|it| it.0)).collect();
    assert!(names.contains(&"PATH") && !variables.contains("secret"), "{variables}");
    assert!(names.iter().all(|name| ["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)), "{variables}");
}

/// The root of a user namespace cannot give its groups away: setgroups(2) is denied.
#[test]
fn passt_may_stay_the_root_of_a_user_namespace() {
    let unshare = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user"]);
        unshare
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        println!("skipped: this host has no user namespaces");
        return;
    }
    let passt = FakePasst::new(BACKGROUND);
    let host = Host::new(&echo(0), &["--timeout", "1"]);
    let uhyve = passt.uhyve(&host, &["--net", "passt"]);
    let mut unshare = unshare();
    unshare.arg(uhyve.get_program()).args(uhyve.get_args());
    unshare.envs(uhyve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let outcome = Outcome::from(unshare.output().unwrap());
    assert_eq!(outcome.code, Some(124), "{outcome:?}");
}

#[test]
fn port_that_passt_does_not_listen_at_is_neither_printed_nor_served() {
    for forward in ["0:80", "0:80/udp", "127.0.0.1:0:80"] {
        let passt = FakePasst::new(BACKGROUND);
        let host = Host::new(&echo(0), &[]);
        let outcome = Outcome::from(passt.uhyve(&host, &["-p", forward]).output().unwrap());
        assert_eq!(outcome.code, Some(125), "{outcome:?}");
        let errors = outcome.errors;
        assert!(
            errors.contains("was taken by another program") && !errors.contains("is forwarded"),
            "{errors}"
        );
    }
}
