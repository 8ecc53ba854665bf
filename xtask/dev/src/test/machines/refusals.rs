//! What uhyve refuses, and what it then says.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::Ring;
use super::machine::Machine;
use crate::test::images::of_another_abi;
use crate::test::schedule::Tests;
use xtask::uhyve::Engine;

/// Starts a program without the rights of anybody.
const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Starts a program that sees an empty `/dev`.
const WITHOUT_DEVICES: [&str; 6] =
    ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /dev && exec \"$@\"", "sh"];

pub(super) fn test<'a>(tests: &mut Tests<'a>, ring: &'a Ring<'_>) {
    images(tests, ring);
    options(tests, ring);
    ring.add(tests, "a missing disk", move || {
        let machine = ring.machine("disk", &["size", "/dev/vda"]).disk("/no/such/disk");
        machine.expect(125, &["cannot open the disk /no/such/disk"]).map(drop)
    });
    if ring.engine == Engine::Kvm {
        devices(tests, ring);
    }
}

/// What a host may lack.
fn devices<'a>(tests: &mut Tests<'a>, ring: &'a Ring<'_>) {
    let no_device: [(&str, &[&str], &str); 2] = [
        ("no permission for /dev/kvm", &AS_NOBODY, "usermod -aG kvm"),
        ("no /dev/kvm", &WITHOUT_DEVICES, "there is no /dev/kvm"),
    ];
    for (name, starter, text) in no_device {
        if can_start(starter) {
            ring.add(tests, name, move || without_kvm(ring, starter, text));
        } else {
            tests.skip(format!("{}: {name}", ring.host), format!("`{}` does not work here", starter[0]));
        }
    }
}

/// A file that is refused, or the reason why it could not be made.
type BadImage = fn(&Ring<'_>, &Path) -> Result<PathBuf>;

/// Files that are no image for this kernel, and what the error says.
const BAD_IMAGES: [(&str, BadImage, &str); 6] = [
    ("a Linux program", |ring, _| Ok(ring.program.clone()), "the ABI note is missing"),
    (
        "an image of another ABI",
        |ring, folder| save(folder, &of_another_abi(&valid(ring)?)?),
        "built for ABI version 99",
    ),
    (
        "an image truncated to half",
        |ring, folder| valid(ring).and_then(|image| save(folder, &image[..image.len() / 2])),
        "truncated",
    ),
    ("a text", |_, folder| save(folder, b"#!/bin/sh\necho hello\n"), "not an ELF file"),
    ("a missing image", |_, _| Ok("/no/such/image".into()), "cannot read /no/such/image"),
    ("a folder", |ring, _| Ok(ring.host.examples.folder().to_owned()), "cannot read "),
];

fn valid(ring: &Ring<'_>) -> Result<Vec<u8>> {
    fs::read(ring.image("hello_world")).context("cannot read an image")
}

fn save(folder: &Path, bytes: &[u8]) -> Result<PathBuf> {
    let file = folder.join("bad");
    fs::write(&file, bytes).map(|()| file).context("cannot write a bad image")
}

/// Each is refused with one line.
fn images<'a>(tests: &mut Tests<'a>, ring: &'a Ring<'_>) {
    for (name, make, text) in BAD_IMAGES {
        ring.add(tests, &format!("refused: {name}"), move || {
            let folder = TempDir::new().context("cannot make a temporary folder")?;
            let file = make(ring, folder.path())?;
            let outcome = ring.machine_for(&file, &[]).expect(125, &["uhyve: error: ", text])?;
            let lines = outcome.text().lines().count();
            ensure!(lines == 1, "{lines} lines\n{outcome}");
            Ok(())
        });
    }
}

fn options<'a>(tests: &mut Tests<'a>, ring: &'a Ring<'_>) {
    let cases: [(&str, [&str; 2], &str); 8] = [
        ("too little memory", ["--memory", "1M"], "at least 8M"),
        ("memory that is no size", ["--memory", "abc"], "such as 64M"),
        ("no CPU", ["--cpus", "0"], "1 to 64"),
        ("too many CPUs", ["--cpus", "65"], "1 to 64"),
        ("a variable without a value", ["--env", "A"], "KEY=VALUE"),
        ("an unknown engine", ["--engine", "steam"], "auto, kvm, process"),
        ("a disk without a name", ["--block", ":ro"], "FILE:ro"),
        ("an unknown option", ["--fast", "--stats"], "--fast"),
    ];
    for (name, words, text) in cases {
        ring.add(tests, &format!("refused: {name}"), move || {
            // The engine is named anew by one of them.
            let machine = Machine::new(Command::new(&ring.program), &ring.image("hello_world"), &[]);
            machine.options(&words).expect(2, &[text]).map(drop)
        });
    }
}

/// Programs can be started in this way: it takes rights that not everybody has.
fn can_start(starter: &[&str]) -> bool {
    let (program, words) = starter.split_first().unwrap_or((&"false", &[]));
    // As nobody, `true` fails if `/dev/kvm` is everybody's: then there is nothing to be seen.
    let mut command = Command::new(program);
    command.args(words).args(["sh", "-c", "! test -w /dev/kvm"]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn without_kvm(ring: &Ring<'_>, starter: &[&str], text: &str) -> Result<()> {
    // The ring's own folder is not for everybody.
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let copy = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).map(|_| to).context("cannot copy a file")
    };
    let mut command = Command::new(copy(&ring.program, "uhyve")?);
    command.args(["--engine", "kvm"]);
    let image = copy(&ring.image("hello_world"), "hello_world")?;
    let machine = Machine::new(command, &image, &[]).started_by(starter);
    machine.expect(125, &["uhyve: error: ", text]).map(drop)
}
