//! Tests of images, options and hosts that uhyve rejects, and of its error messages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hermit_machines::uhyve::Engine;
use tempfile::TempDir;

use super::Fixture;
use super::command::UhyveCommand;
use crate::test::boot::of_another_abi;
use crate::test::schedule::Tests;

/// Words that run a program as an unprivileged user.
const UNPRIVILEGED: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Words that run a program with an empty `/dev`.
const WITHOUT_DEVICES: [&str; 6] =
    ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /dev && exec \"$@\"", "sh"];

pub(super) fn test<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    images(tests, fixture);
    options(tests, fixture);
    fixture.add(tests, "a missing disk", move || {
        let machine = fixture.command("disk", &["size", "/dev/vda"]).disk("/no/such/disk");
        machine.expect(125, &["cannot open the disk /no/such/disk"]).map(drop)
    });
    if fixture.engine == Engine::Kvm {
        devices(tests, fixture);
    }
}

/// uhyve reports an error on hosts without KVM.
fn devices<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    let no_device: [(&str, &[&str], &str); 2] = [
        ("no permission for /dev/kvm", &UNPRIVILEGED, "usermod -aG kvm"),
        ("no /dev/kvm", &WITHOUT_DEVICES, "there is no /dev/kvm"),
    ];
    for (name, starter, text) in no_device {
        if can_start(starter) {
            fixture.add(tests, name, move || without_kvm(fixture, starter, text));
        } else {
            tests.skip(
                format!("{}: {name}", fixture.platform),
                format!("`{}` does not work here", starter[0]),
            );
        }
    }
}

/// Function that makes a file that uhyve rejects.
type BadImage = fn(&Fixture<'_>, &Path) -> Result<PathBuf>;

/// Files that are not images of this kernel: a name, the function that makes the file, and a text in the
/// error message.
const BAD_IMAGES: [(&str, BadImage, &str); 6] = [
    ("a Linux program", |fixture, _| Ok(fixture.program.clone()), "the ABI note is missing"),
    (
        "an image of another ABI",
        |fixture, folder| save(folder, &of_another_abi(&valid(fixture)?)?),
        "built for ABI version 99",
    ),
    (
        "an image truncated to half",
        |fixture, folder| valid(fixture).and_then(|image| save(folder, &image[..image.len() / 2])),
        "truncated",
    ),
    ("a text", |_, folder| save(folder, b"#!/bin/sh\necho hello\n"), "not an ELF file"),
    ("a missing image", |_, _| Ok("/no/such/image".into()), "cannot read /no/such/image"),
    ("a folder", |fixture, _| Ok(fixture.platform.images.folder().to_owned()), "cannot read "),
];

fn valid(fixture: &Fixture<'_>) -> Result<Vec<u8>> {
    fs::read(fixture.image("hello_world")).context("cannot read an image")
}

fn save(folder: &Path, bytes: &[u8]) -> Result<PathBuf> {
    let file = folder.join("bad");
    fs::write(&file, bytes).map(|()| file).context("cannot write a bad image")
}

/// uhyve rejects each file with one line.
fn images<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    for (name, make, text) in BAD_IMAGES {
        fixture.add(tests, &format!("refused: {name}"), move || {
            let folder = TempDir::new().context("cannot make a temporary folder")?;
            let file = make(fixture, folder.path())?;
            let outcome = fixture.command_for(&file, &[]).expect(125, &["uhyve: error: ", text])?;
            let lines = outcome.text().lines().count();
            ensure!(lines == 1, "{lines} lines\n{outcome}");
            Ok(())
        });
    }
}

fn options<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    let cases: [(&str, [&str; 2], &str); 10] = [
        ("too little memory", ["--memory", "1M"], "at least 8M"),
        ("memory that is no size", ["--memory", "abc"], "such as 64M"),
        ("no CPU", ["--cpus", "0"], "1 to 64"),
        ("too many CPUs", ["--cpus", "65"], "1 to 64"),
        ("a variable without a name", ["--env", "=A"], "KEY=VALUE"),
        ("a missing file of variables", ["--env-file", "/no/such/file"], "environment file /no/such/file"),
        ("a folder of the host", ["--mount", "a:b"], "HOST:/GUEST"),
        ("an unknown engine", ["--engine", "steam"], "auto, kvm, process"),
        ("a disk without a name", ["--block", ":ro"], "FILE:ro"),
        ("an unknown option", ["--fast", "--stats"], "--fast"),
    ];
    for (name, words, text) in cases {
        fixture.add(tests, &format!("refused: {name}"), move || {
            // The command does not name the engine, because one of the cases does.
            let machine =
                UhyveCommand::new(Command::new(&fixture.program), &fixture.image("hello_world"), &[]);
            machine.options(&words).expect(2, &[text]).map(drop)
        });
    }
}

/// Returns true if a program can be started by `starter`, which needs privileges.
fn can_start(starter: &[&str]) -> bool {
    let (program, words) = starter.split_first().unwrap_or((&"false", &[]));
    // If all users may write to `/dev/kvm`, there would be no error to test.
    let mut command = Command::new(program);
    command.args(words).args(["sh", "-c", "! test -w /dev/kvm"]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn without_kvm(fixture: &Fixture<'_>, starter: &[&str], text: &str) -> Result<()> {
    // The image is copied to a public folder, because other users may not read the folder of the images.
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let copy = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).map(|_| to).context("cannot copy a file")
    };
    let mut command = Command::new(copy(&fixture.program, "uhyve")?);
    command.args(["--engine", "kvm"]);
    let image = copy(&fixture.image("hello_world"), "hello_world")?;
    let machine = UhyveCommand::new(command, &image, &[]).started_by(starter);
    machine.expect(125, &["uhyve: error: ", text]).map(drop)
}
