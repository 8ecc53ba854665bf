//! Usage errors: exit codes and messages of the build tool.

use std::fs;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::build_tool::{expect, xtask};
use super::images::Images;
use super::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, images: &'a Images) -> Result<()> {
    let image = images.image("hello_world").display().to_string();
    let own = std::env::current_exe()?.display().to_string();
    let empty = images.folder().join("empty");
    fs::create_dir_all(&empty)?;
    let empty = empty.display().to_string();
    let in_process = ["run", &image, "--platform", "process"];
    let with_board = [in_process.as_slice(), &["--board", "pc"]].concat();
    let twice = [in_process.as_slice(), &["-p", "8080:80", "-p", "8080:81"]].concat();
    let cases: [(&str, &[&str], i32, &str); 17] = [
        ("an unknown example", &["run", "hello_wrld"], 125, "hello_world"),
        ("a missing file", &["run", "/no/such/image"], 125, "neither an example nor"),
        ("a folder without a crate", &["run", &empty], 125, "no Cargo.toml"),
        ("a Linux program", &["run", &own], 125, "the ABI note is missing"),
        ("too little memory", &["run", &image, "--memory", "1M"], 2, "at least 8M"),
        ("memory that is no size", &["run", &image, "--memory", "abc"], 2, "such as 64M"),
        ("no CPU", &["run", &image, "--cpus", "0"], 2, "1 to 64"),
        ("a variable without a value", &["run", &image, "--env", "A"], 2, "KEY=VALUE"),
        ("QEMU's board without QEMU", &with_board, 2, "--board is"),
        ("gdb with QEMU", &["run", &image, "--board", "pc", "--gdb", "0"], 2, "--gdb is for uhyve"),
        ("a disk on microvm", &["run", &image, "--board", "microvm", "--block", "a"], 2, "--board pc"),
        ("no kind of network", &["run", &image, "--net", "x"], 2, "tap=NAME"),
        ("ports and a tap", &["run", &image, "-p", "1:1", "--net", "tap=a"], 2, "--net user"),
        (
            "uhyve's network in QEMU",
            &["run", &image, "--board", "pc", "--net", "passt,mtu=1500"],
            2,
            "for uhyve",
        ),
        ("a port that is given twice", &twice, 2, "given twice"),
        ("an unknown flag", &["run", &image, "--fast"], 2, "--fast"),
        ("an unknown command", &["fly"], 2, "fly"),
    ];
    for (name, arguments, code, text) in cases {
        let mut command = xtask(arguments)?;
        tests.add(format!("usage error: {name}"), move || expect(&mut command, code, text).map(drop));
    }
    tests.add("usage error: QEMU is missing", move || {
        // The runner starts no other program before it looks for QEMU, and installs nothing.
        let mut command = xtask(&["runner", &image])?;
        command.env("HERMIT_RUN_ARGS", "--platform qemu");
        expect(command.env("PATH", ""), 125, "apt-get install qemu-system-x86").map(drop)
    });
    tests.add("image writes a file", move || {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let file = folder.path().join("fused");
        let path = file.display().to_string();
        expect(&mut xtask(&["image", "hello_world", "--release", "-o", &path])?, 0, "qemu-system-x86_64")?;
        ensure!(file.is_file(), "there is no file");
        Ok(())
    });
    Ok(())
}
