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
use crate::test::report::Report;
use xtask::uhyve::Engine;

/// Starts a program without the rights of anybody.
const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Starts a program that sees an empty `/dev`.
const WITHOUT_DEVICES: [&str; 6] =
    ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /dev && exec \"$@\"", "sh"];

pub(super) fn test(report: &mut Report, ring: &Ring<'_>) {
    images(report, ring);
    options(report, ring);
    ring.check(report, "a missing disk", || {
        let machine = ring.machine("disk", &["size", "/dev/vda"]).disk("/no/such/disk");
        machine.expect(125, &["cannot open the disk /no/such/disk"]).map(drop)
    });
    if ring.engine == Engine::Kvm {
        devices(report, ring);
    }
}

/// What a host may lack.
fn devices(report: &mut Report, ring: &Ring<'_>) {
    let no_device: [(&str, &[&str], &str); 2] = [
        ("no permission for /dev/kvm", &AS_NOBODY, "usermod -aG kvm"),
        ("no /dev/kvm", &WITHOUT_DEVICES, "there is no /dev/kvm"),
    ];
    for (name, starter, text) in no_device {
        if can_start(starter) {
            ring.check(report, name, || without_kvm(ring, starter, text));
        } else {
            report.skip(&format!("{}: {name}", ring.host), &format!("`{}` does not work here", starter[0]));
        }
    }
}

/// Each must be refused with one line.
fn images(report: &mut Report, ring: &Ring<'_>) {
    let image = |bytes: Vec<u8>| {
        let file = ring.host.examples.folder().join("bad");
        fs::write(&file, bytes).map(|()| file).context("cannot write a bad image")
    };
    let good = || fs::read(ring.image("hello_world")).context("cannot read an image");
    type Make<'a> = &'a dyn Fn() -> Result<PathBuf>;
    let cases: [(&str, Make<'_>, &str); 6] = [
        ("a Linux program", &|| Ok(ring.program.clone()), "the ABI note is missing"),
        ("an image of another ABI", &|| image(of_another_abi(&good()?)?), "built for ABI version 99"),
        (
            "an image cut at half",
            &|| good().and_then(|good| image(good[..good.len() / 2].to_vec())),
            "truncated",
        ),
        ("a text", &|| image(b"#!/bin/sh\necho hello\n".to_vec()), "not an ELF file"),
        ("a missing image", &|| Ok("/no/such/image".into()), "cannot read /no/such/image"),
        ("a folder", &|| Ok(ring.host.examples.folder().to_owned()), "cannot read "),
    ];
    for (name, make, text) in cases {
        ring.check(report, &format!("refused: {name}"), || {
            let outcome = ring.machine_for(&make()?, &[]).expect(125, &["uhyve: error: ", text])?;
            let lines = outcome.text().lines().count();
            ensure!(lines == 1, "{lines} lines\n{outcome}");
            Ok(())
        });
    }
}

fn options(report: &mut Report, ring: &Ring<'_>) {
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
        ring.check(report, &format!("refused: {name}"), || {
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
