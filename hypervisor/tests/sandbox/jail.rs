//! Guests in a jail, on either engine.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::guests::{Engine, image};
use crate::jail_checks::{self, IDS, check};
use crate::program;

/// uhyve with a jail.
fn uhyve() -> Command {
    let mut uhyve = Command::new(program::uhyve());
    uhyve.args(["--engine", Engine::from_environment().option(), "--timeout", "60", "--jail", IDS]);
    uhyve
}

#[test]
fn jailed_guest_uses_its_console() {
    let Some(image) = image("stdin").filter(|_| jail_checks::is_possible()) else { return };
    let mut child = uhyve().arg(&image).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    input.write_all(b"hello\n").unwrap();
    let mut first = [0];
    output.read_exact(&mut first).unwrap();
    // The guest runs until the end of its input.
    check(child.id().cast_signed(), &[]);
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(first == *b"H" && rest.starts_with("ELLO\n"), "{rest}");
    assert!(child.wait().unwrap().success());
}

/// The disk is root's: it is opened before the jail is entered.
#[test]
fn jailed_guest_uses_a_disk_that_its_user_cannot_open() {
    let Some(image) = image("disk").filter(|_| jail_checks::is_possible()) else { return };
    let disk = tempfile::NamedTempFile::new().unwrap();
    disk.as_file().set_len(16 << 10).unwrap();
    disk.as_file().set_permissions(Permissions::from_mode(0o600)).unwrap();
    let mut uhyve = uhyve();
    uhyve.arg("--block").arg(disk.path()).arg(&image).args(["--", "check", "/dev/vda"]);
    let output = uhyve.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read(disk.path()).unwrap().iter().any(|&byte| byte != 0));
}
