//! The build tool as users call it: from a crate of their own, and with mistakes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::guests::{Examples, example};
use super::report::Report;
use crate::build::GUEST_TARGET;
use crate::{process, workspace};

pub(crate) fn test(report: &mut Report, examples: &Examples) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    report.check("user: a crate outside the workspace", || outside_crate(folder.path()));
    mistakes(report, examples, folder.path())?;
    report.check("user: the exit code, output and input of run", || run(examples));
    report.check("user: a time limit", || time_limit(examples));
    report.check("user: a disk for run", || {
        disk(&["--platform", "qemu"], &example("disk", true)?, folder.path())
    });
    report.check("user: image writes a file that boots", || image(folder.path()));
    Ok(())
}

/// This tool with arguments.
fn xtask(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program's file")?);
    command.args(arguments).stdin(std::process::Stdio::null());
    Ok(command)
}

fn expect(command: &mut Command, code: i32, text: &str) -> Result<Output> {
    let output = command.output().with_context(|| format!("cannot start {}", process::display(command)))?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let fits = output.status.code() == Some(code) && (stdout.contains(text) || stderr.contains(text));
    ensure!(
        fits && !stderr.contains("panicked"),
        "`{}` ended with {} instead of {code}, or did not print {text:?}\n--- stdout:\n{stdout}\n--- stderr:\n{stderr}\n---",
        process::display(command),
        output.status,
    );
    Ok(output)
}

/// `cargo new`, the dependency, plain cargo; then `cargo xtask run PATH`, and `cargo run` through the runner.
fn outside_crate(folder: &Path) -> Result<()> {
    let cargo = || {
        let mut cargo = process::cargo();
        cargo.current_dir(folder).env_remove("CARGO_TARGET_DIR");
        cargo
    };
    process::run(cargo().args(["new", "--quiet", "--vcs", "none", "--name", "guest", "crate"]))?;
    let path = folder.join("crate");
    let manifest = path.join("Cargo.toml");
    let mut text = fs::read_to_string(&manifest)?;
    text.push_str(&format!(
        "\n[target.'cfg(target_os = \"hermit\")'.dependencies]\nhermit-sys = {{ path = {:?} }}\n",
        workspace::root().join("hermit-sys").display().to_string()
    ));
    fs::write(&manifest, text)?;
    let main = "#[cfg(target_os = \"hermit\")]\nuse hermit_sys as _;\nfn main() { println!(\"from {} {:?}\", \
                std::env::consts::OS, std::env::args().skip(1).collect::<Vec<_>>()); std::process::exit(7) }\n";
    fs::write(path.join("src/main.rs"), main)?;
    process::run(cargo().current_dir(&path).args(["build", "--quiet", "--target", GUEST_TARGET]))?;
    let name = path.display().to_string();
    expect(&mut xtask(&["run", &name, "--timeout", "60", "--", "a b"])?, 7, "from hermit [\"a b\"]")?;
    let runner = format!("{} runner", std::env::current_exe()?.display());
    let mut run = cargo();
    run.current_dir(&path).args(["run", "--quiet", "--release", "--target", GUEST_TARGET]);
    run.args(["--target-dir", "another folder", "--", "x"]);
    run.env("CARGO_TARGET_X86_64_UNKNOWN_HERMIT_RUNNER", runner)
        .env("HERMIT_RUN_ARGS", "--timeout 60 --memory 32M");
    expect(&mut run, 7, "from hermit [\"x\"]").map(drop)
}

fn mistakes(report: &mut Report, examples: &Examples, folder: &Path) -> Result<()> {
    let image = examples.hello_world.display().to_string();
    let own = std::env::current_exe()?.display().to_string();
    let empty: PathBuf = folder.join("empty");
    fs::create_dir(&empty)?;
    let empty = empty.display().to_string();
    let cases: [(&str, &[&str], i32, &str); 13] = [
        ("an unknown example", &["run", "hello_wrld"], 125, "hello_world"),
        ("a missing file", &["run", "/no/such/image"], 125, "neither an example nor"),
        ("a folder without a crate", &["run", &empty], 125, "no Cargo.toml"),
        ("a Linux program", &["run", &own], 125, "the ABI note is missing"),
        ("too little memory", &["run", &image, "--memory", "1M"], 2, "at least 8M"),
        ("memory that is no size", &["run", &image, "--memory", "abc"], 2, "such as 64M"),
        ("no CPU", &["run", &image, "--cpus", "0"], 2, "1..=64"),
        ("a variable without a value", &["run", &image, "--env", "A"], 2, "KEY=VALUE"),
        ("a platform of the future", &["run", &image, "--platform", "process"], 125, "--platform qemu"),
        (
            "QEMU's board without QEMU",
            &["run", &image, "--platform", "kvm", "--board", "pc"],
            125,
            "--board is",
        ),
        ("a disk on microvm", &["run", &image, "--board", "microvm", "--block", "a"], 125, "--board pc"),
        ("an unknown flag", &["run", &image, "--fast"], 2, "--fast"),
        ("an unknown command", &["fly"], 2, "fly"),
    ];
    for (name, arguments, code, text) in cases {
        report.check(&format!("mistake: {name}"), || expect(&mut xtask(arguments)?, code, text).map(drop));
    }
    report.check("mistake: QEMU is missing", || {
        // The runner needs no other program, and does not install anything.
        let mut command = xtask(&["runner", &image])?;
        command.env("HERMIT_RUN_ARGS", "--platform qemu");
        expect(command.env("PATH", ""), 125, "apt-get install qemu-system-x86").map(drop)
    });
    Ok(())
}

fn run(examples: &Examples) -> Result<()> {
    let image = examples.hello_world.display().to_string();
    runs(&["--platform", "qemu"], &image)
}

/// `run` passes on what goes in and what comes out.
pub(super) fn runs(options: &[&str], image: &str) -> Result<()> {
    let rest = ["--env", "GREETING=hi", "--cpus", "2", "--timeout", "60", "--", "one", "--exit-code", "42"];
    let arguments = [&["run", image], options, &rest].concat();
    let output = expect(&mut xtask(&arguments)?, 42, "GREETING=hi\nprocessors: 2\n")?;
    ensure!(output.stdout.starts_with(b"Hello, world!\n"), "something else is on standard output");
    Ok(())
}

/// `run` has disks, whatever their file is called.
pub(super) fn disk(options: &[&str], image: &Path, folder: &Path) -> Result<()> {
    let file = folder.join("a disk, zeroed");
    fs::write(&file, vec![0; 4096])?;
    let file = file.display().to_string();
    let image = image.display().to_string();
    let run = |disk: &str, words: &[&str]| {
        let limited = ["run", &image, "--timeout", "60", "--block", disk];
        xtask(&[&limited, options, &["--"], words].concat())
    };
    expect(&mut run(&file, &["check", "/dev/vda"])?, 0, "4096 bytes are as they were written")?;
    expect(&mut run(&format!("{file}:ro"), &["check", "/dev/vda"])?, 1, "Permission denied").map(drop)
}

fn time_limit(examples: &Examples) -> Result<()> {
    let image = examples.stdin.display().to_string();
    let mut command = xtask(&["run", &image, "--platform", "qemu", "--timeout", "1"])?;
    // Its input never ends.
    let output = command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = output.stderr(std::process::Stdio::piped()).spawn()?;
    let pipe = child.stdin.take();
    let result = child.wait_with_output()?;
    drop(pipe);
    let text = String::from_utf8_lossy(&result.stderr);
    ensure!(result.status.code() == Some(124) && text.contains("was killed"), "{}: {text}", result.status);
    Ok(())
}

fn image(folder: &Path) -> Result<()> {
    let file = folder.join("fused");
    let path = file.display().to_string();
    expect(&mut xtask(&["image", "hello_world", "--release", "-o", &path])?, 0, "qemu-system-x86_64")?;
    ensure!(file.is_file(), "there is no file");
    Ok(())
}
