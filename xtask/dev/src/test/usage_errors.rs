//! Tests of usage errors: exit codes and messages of the build tool.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Error, Result, ensure};
use hermit_options::memory;
use hermit_toolchain::workspace;
use tempfile::TempDir;

use super::build_tool::{OPTIONS, expect, xtask};
use super::images::Images;
use super::schedule::Tests;

/// The largest memory of a machine.
const MAX_MEMORY: &str = "1024G";

pub(super) fn test<'a>(tests: &mut Tests<'a>, images: &'a Images) -> Result<()> {
    let image = images.image("hello_world").display().to_string();
    let empty = images.folder().join("empty");
    fs::create_dir_all(&empty)?;
    let empty = empty.display().to_string();
    let root = workspace::root().display().to_string();
    let in_process = ["run", &image, "--platform", "process"];
    let with_board = [in_process.as_slice(), &["--board", "pc"]].concat();
    let twice = [in_process.as_slice(), &["-p", "8080:80", "-p", "8080:81"]].concat();
    let cases: [(&str, &[&str], i32, &str); 24] = [
        ("an unknown example", &["run", "hello_wrld"], 2, "hello_world"),
        ("a missing file", &["run", "/no/such/image"], 2, "neither an example nor"),
        ("a folder without a crate", &["run", &empty], 2, "no Cargo.toml"),
        ("a missing file for an image", &["image", "/no/such/image"], 2, "neither an example nor"),
        ("a workspace", &["run", &root], 2, "is a workspace without a program of its own"),
        ("a Linux program", &["run", "/proc/self/exe"], 125, "the ABI note is missing"),
        ("too little memory", &["run", &image, "--memory", "1M"], 2, "at least 8M"),
        ("memory that is no size", &["run", &image, "--memory", "abc"], 2, "such as 64M"),
        ("no CPU", &["run", &image, "--cpus", "0"], 2, "1 to 64"),
        ("memory in bytes", &["run", &image, "--memory", "64"], 2, "did you mean 64M?"),
        ("a variable without a name", &["run", &image, "--env", "=A"], 2, "KEY=VALUE"),
        (
            "a missing file of variables",
            &["run", &image, "--env-file", "/no/such"],
            2,
            "environment file /no/such",
        ),
        ("statistics of QEMU", &["run", &image, "--board", "pc", "--stats"], 2, "--stats is for uhyve"),
        ("a folder of the host", &["run", &image, "--mount", "a:b"], 2, "HOST:/GUEST"),
        ("QEMU's board without QEMU", &with_board, 2, "--board is"),
        ("gdb with QEMU", &["run", &image, "--board", "pc", "--gdb", "0"], 2, "--gdb is for uhyve"),
        ("a disk on microvm", &["run", &image, "--board", "microvm", "--block", "a"], 2, "--board pc"),
        ("an unknown network", &["run", &image, "--net", "host"], 2, "unknown network `host`"),
        ("a network of earlier versions", &["run", &image, "--net", "passt"], 2, "write --net user"),
        ("ports and a tap", &["run", &image, "-p", "1:1", "--net", "tap=a"], 2, "--net user"),
        (
            "uhyve's keys of a tap in QEMU",
            &["run", &image, "--board", "pc", "--net", "tap=a,mtu=1500"],
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
    before_the_build(tests, &image)?;
    trees(tests, &image)?;
    too_much_memory(tests, &image)?;
    tests.add("usage error: QEMU is missing", move || {
        // With this `PATH`, the runner finds neither QEMU nor a program that installs QEMU. It starts no
        // other program before it searches for QEMU.
        let mut command = xtask(&["runner", &image])?;
        command.env("HERMIT_RUN_ARGS", "--platform qemu");
        expect(command.env("PATH", ""), 125, "apt-get install qemu-system-x86").map(drop)
    });
    tests.add("boot image: run and QEMU alone return the guest's exit code", boot_image);
    Ok(())
}

/// Errors that are found before the program is built, and errors in the runner's variable.
fn before_the_build(tests: &mut Tests<'_>, image: &str) -> Result<()> {
    let cases: [(&str, &[&str], &str); 4] = [
        ("a missing folder", &["run", "hello_world", "--mount", "/no/such:/srv"], "/no/such"),
        ("a missing disk", &["run", "hello_world", "--block", "/no/such"], "/no/such"),
        ("a key of the network", &["run", "hello_world", "--net", "user,mtu=1"], "576 to 65520"),
        ("a binary that is none", &["run", "hello_world", "--bin", "other"], "no binary `other`"),
    ];
    for (name, arguments, text) in cases {
        let mut command = xtask(arguments)?;
        tests.add(format!("usage error: {name}"), move || {
            let output = expect(&mut command, 2, text)?;
            let messages = String::from_utf8_lossy(&output.stderr);
            ensure!(!messages.contains("Compiling") && !messages.contains("Finished"), "{messages}");
            Ok(())
        });
    }
    for (options, text) in [("--publsh 8080:80", "unexpected argument '--publsh'"), ("-p 80", "8080:80")] {
        let mut command = xtask(&["runner", image])?;
        command.env(OPTIONS, options);
        tests.add(format!("usage error: {OPTIONS}={options}"), move || {
            expect(&mut command, 2, text).map(drop)
        });
    }
    Ok(())
}

/// Initial trees that cannot be read: uhyve reports the error, or the build tool before it starts QEMU.
fn trees(tests: &mut Tests<'_>, image: &str) -> Result<()> {
    for platform in ["process", "qemu"] {
        for (root, text) in [("/no/such", "cannot read /no/such"), (image, "no tar archive that can be read")]
        {
            let mut command = xtask(&["run", image, "--platform", platform, "--root", root])?;
            tests.add(format!("usage error: {platform}: a tree: {text}"), move || {
                expect(&mut command, 2, text).map(drop)
            });
        }
    }
    Ok(())
}

/// `image` writes a file that `run` boots on two platforms. The commands that `image` prints boot the file
/// with QEMU alone.
fn boot_image() -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let file = folder.path().join("app.boot");
    let path = file.display().to_string();
    let mut image = xtask(&["image", "hello_world", "--release", "-o", &path])?;
    let printed = expect(&mut image, 0, "qemu-system-x86_64")?.stdout;
    for platform in ["process", "qemu"] {
        let run = ["run", &path, "--platform", platform, "--timeout", "180", "--", "--exit-code", "7"];
        expect(&mut xtask(&run)?, 7, "Hello, world!")?;
    }
    expect(&mut xtask(&["image", &path])?, 2, "is a boot image already")?;
    let printed = String::from_utf8(printed)?;
    let script = printed.find("qemu-system").and_then(|start| printed.get(start..));
    let script = script.context("no command of QEMU")?.replace("tcp::8080-", "tcp::0-");
    for (line, code, text) in [
        ("-- --exit-code 7", 7, "Hello, world!"),
        ("-- one", 0, "argument 1: one"),
        ("one", 125, "`one` on the kernel command line is no option"),
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script.replace("-- ARGUMENTS", line)]).stdin(Stdio::null());
        expect(&mut shell, code, text)?;
    }
    Ok(())
}

/// Adds tests with more memory than the host has. Adds none if the host has the maximum memory of a machine.
fn too_much_memory(tests: &mut Tests<'_>, image: &str) -> Result<()> {
    if memory::check(MAX_MEMORY.parse().map_err(Error::msg)?).is_err() {
        for platform in ["process", "qemu"] {
            let arguments = ["run", image, "--platform", platform, "--memory", MAX_MEMORY];
            let mut command = xtask(&arguments)?;
            tests.add(format!("usage error: more memory than the host has, {platform}"), move || {
                expect(&mut command, 125, "more than this host's memory").map(drop)
            });
        }
    }
    Ok(())
}
