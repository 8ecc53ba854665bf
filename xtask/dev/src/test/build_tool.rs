//! Tests of the build tool as users call it, on crates outside the workspace and on examples.
//!
//! The tests start the program `xtask` and cargo as child processes, as a user's shell does, and check the
//! exit code and the output. The crates are generated in the folder of the images: one that depends on
//! `hermit-sys`, one without any dependency, and one whose manifest differs from that of `cargo new`. `cargo
//! run` and `cargo test` boot programs with the runner that set-up configures, so these tests cover the
//! runner, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, ensure};
use hermit_toolchain::target::GUEST_TARGET;
use hermit_toolchain::{Toolchain, cargo, process, workspace};

use super::cargo_test;
use super::child::started_by;
use super::images::Images;
use super::mounts;
use super::platform::TestPlatform;
use super::run_options;
use super::schedule::Tests;

/// The environment variable with the runner's options.
pub(super) const OPTIONS: &str = "HERMIT_RUN_ARGS";

/// Path of the program `xtask`, after it has been built.
static XTASK: OnceLock<PathBuf> = OnceLock::new();

/// Held while a crate is created. Tests of several rings share the crate.
static CRATE: Mutex<()> = Mutex::new(());

/// A program outside the workspace. Its tests are in [`cargo_test`].
const PROGRAM: &str = r#"
#[cfg(target_os = "hermit")]
use hermit_sys as _;

fn main() {
    if std::env::args().any(|argument| argument == "panic") {
        println!("caught: {}", std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(1))).is_err());
    }
    println!("from {} {:?}", std::env::consts::OS, std::env::args().skip(1).collect::<Vec<_>>());
    std::process::exit(7)
}
"#;

/// A program without any dependency, which is linked to the kernel that is installed with the target. It
/// opens a socket, so that the network stack is linked, too.
const INDEPENDENT: &str = r#"
fn main() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("no socket");
    println!("independent on {}: {}", std::env::consts::OS, socket.local_addr().is_ok());
}

#[test]
fn adds() {
    assert_eq!(std::thread::spawn(|| 1 + 1).join().ok(), Some(2));
}
"#;

/// A library with doc tests of edition 2024. Both tests run in the same machine. The second test must run
/// although the first one panics.
const DOC_TESTS: &str = r#"
//! ```should_panic
//! panic!("as expected");
//! ```
//!
//! ```
//! assert_eq!(std::env::consts::OS, "hermit");
//! ```
"#;

/// Adds the tests of the build tool on a platform.
pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    tests.add(format!("{platform}: run passes on input, output and the exit code"), move || {
        runs(&platform.to_string(), &platform.images.image("hello_world"))
    });
    tests.add(format!("{platform}: run keeps the output streams apart"), move || {
        streams(&platform.to_string(), &platform.images.image("faults"))
    });
    tests.add(format!("{platform}: run with a disk"), move || disk(&platform.to_string(), platform.images));
    run_options::test(tests, platform);
    if platform.is_slow() {
        // The other tests are left out, because they build images with floating-point instructions.
        return;
    }
    mounts::test(tests, platform, long);
    tests.add(format!("{platform}: run with a time limit"), move || {
        time_limit(&platform.to_string(), &platform.images.image("stdin"))
    });
    let options = machine(&platform.to_string(), 180);
    tests.add(format!("{platform}: cargo run in the workspace"), move || {
        let mut cargo = process::cargo();
        cargo.current_dir(workspace::root()).env(OPTIONS, &options).stdin(Stdio::null());
        cargo.args(["run", "--quiet", "--release", "--package", "hello_world", "--target", GUEST_TARGET]);
        expect(cargo.args(["--", "--exit-code", "7"]), 7, "operating system: hermit").map(drop)
    });
    tests.add(format!("{platform}: a crate outside the workspace"), move || {
        let folder = platform.images.folder().join("another folder");
        outside_crate(&platform.to_string(), &folder)
    });
    tests.add(format!("{platform}: a crate without dependencies"), move || {
        let folder = platform.images.folder().join("independent");
        independent_crate(&platform.to_string(), &folder)?;
        // Runs in one test ring only, because all rings share the toolchain's stamp of the kernel.
        if platform.to_string() == "process" { installs_kernel(&folder) } else { Ok(()) }
    });
    tests.add(format!("{platform}: a manifest of another form than that of cargo new"), move || {
        unusual_crate(&platform.to_string(), &platform.images.folder().join(format!("unusual {platform}")))
    });
}

/// Returns the runner's options: a platform, and a time limit for each machine.
fn machine(platform: &str, seconds: u32) -> String {
    format!("--platform {platform} --timeout {seconds} --memory 32M")
}

/// Returns the command `xtask` with these arguments.
pub(super) fn xtask(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(xtask_program()?);
    command.args(arguments).stdin(Stdio::null());
    Ok(command)
}

/// Returns the file of the program `xtask`, and builds it first if no test has done so yet.
pub(super) fn xtask_program() -> Result<&'static Path> {
    if XTASK.get().is_none() {
        // Another thread may have stored the same path meanwhile.
        let _: Result<(), PathBuf> = XTASK.set(cargo::build_xtask()?);
    }
    XTASK.get().map(PathBuf::as_path).context("the program `xtask` was not built")
}

/// Runs a command. Checks its exit code, and that standard output or standard error contains `text`.
pub(super) fn expect(command: &mut Command, code: i32, text: &str) -> Result<Output> {
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

/// `cargo build`, `cargo xtask run PATH`, and `cargo run` and `cargo test` with the runner, in a crate
/// outside the workspace.
fn outside_crate(platform: &str, folder: &Path) -> Result<()> {
    make_crate(folder)?;
    let runner = xtask_program()?;
    let cargo = |words: &[&str]| cargo_with_runner(runner, platform, folder, words);
    process::run(&mut cargo(&["build", "--quiet"]))?;
    let name = folder.display().to_string();
    let run = ["run", &name, "--platform", platform, "--timeout", "180", "--", "a b"];
    expect(&mut in_own_target(xtask(&run)?), 7, "from hermit [\"a b\"]")?;
    expect(cargo(&["run", "--quiet"]).args(["--", "x"]), 7, "from hermit [\"x\"]")?;
    expect(cargo(&["run", "--quiet"]).args(["--", "panic"]), 7, "caught: true")?;
    // In the crate's release profile, panics abort.
    let release = ["run", &name, "--release", "--platform", platform, "--timeout", "180", "--", "panic"];
    expect(&mut in_own_target(xtask(&release)?), 134, "")?;
    let host = || {
        let mut cargo = in_own_target(process::cargo());
        cargo.current_dir(folder).stdin(Stdio::null()).arg("test");
        cargo
    };
    cargo_test::test(|| cargo(&["test"]), host, |seconds| machine(platform, seconds))
}

/// `cargo run` and `cargo test` in a crate without dependencies.
fn independent_crate(platform: &str, folder: &Path) -> Result<()> {
    new_crate(folder, "independent", "", INDEPENDENT)?;
    let runner = xtask_program()?;
    let cargo = |words: &[&str]| cargo_with_runner(runner, platform, folder, words);
    expect(&mut cargo(&["run", "--quiet"]), 0, "independent on hermit: true")?;
    expect(&mut cargo(&["test", "--quiet"]), 0, "1 passed")?;
    fs::write(folder.join("src/lib.rs"), DOC_TESTS)?;
    expect(&mut cargo(&["test", "--quiet", "--doc"]), 0, "2 passed").map(drop)
}

/// Maximum number of attempts. An attempt does not count if another test installs the kernel before `run`
/// does.
const INSTALL_ATTEMPTS: usize = 5;

/// `run` notices before the build that the kernel for crates without dependencies is missing, and installs
/// it.
fn installs_kernel(folder: &Path) -> Result<()> {
    let mut outcome = Ok(());
    for _ in 0..INSTALL_ATTEMPTS {
        outcome = try_install_kernel(folder);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

fn try_install_kernel(folder: &Path) -> Result<()> {
    let stamp = Toolchain::detect()?.rustlib().join("hermit-setup/default-kernel.stamp");
    fs::remove_file(&stamp).with_context(|| format!("cannot remove {}", stamp.display()))?;
    let name = folder.display().to_string();
    let mut run = in_own_target(xtask(&["run", &name, "--platform", "process", "--timeout", "180"])?);
    let output = expect(&mut run, 0, "independent on hermit: true")?;
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let installed = messages.find("kernel of crates that do not depend on hermit-sys: not installed");
    let built = messages.find("Compiling independent").or(messages.find("Finished `dev`"));
    ensure!(
        installed.is_some() && installed < built && stamp.is_file(),
        "no kernel was installed:\n{messages}"
    );
    Ok(())
}

/// The manifest has no line `[package]`. It has two programs, one of them the default, and a library of a
/// type that the target does not support.
fn unusual_crate(platform: &str, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder.join("src/bin"))?;
    let manifest = "package.name = 'unusual'\npackage.edition = '2024'\npackage.default-run = 'second'\n\
        lib.crate-type = ['cdylib']\n[workspace]\n";
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/lib.rs"), "")?;
    fs::write(folder.join("src/main.rs"), "fn main() { println!(\"the first\") }")?;
    fs::write(folder.join("src/bin/second.rs"), "fn main() { println!(\"the second\") }")?;
    let name = folder.display().to_string();
    let run = |bin: &[&str]| -> Result<Command> {
        let options = ["run", &name, "--platform", platform, "--timeout", "180"];
        Ok(in_own_target(xtask(&[options.as_slice(), bin].concat())?))
    };
    expect(&mut run(&[])?, 0, "the second")?;
    expect(&mut run(&["--bin", "unusual"])?, 0, "the first")?;
    expect(&mut run(&["--bin", "third"])?, 2, "no binary `third`, but")?;
    fs::write(folder.join("Cargo.toml"), manifest.replace("package.default-run = 'second'\n", ""))?;
    expect(&mut run(&[])?, 2, "choose one with `--bin NAME` out of").map(drop)
}

/// Returns a command of cargo for the target, in a crate outside the workspace, with the configuration that
/// set-up recommends to users.
fn cargo_with_runner(runner: &Path, platform: &str, folder: &Path, words: &[&str]) -> Command {
    let mut cargo = in_own_target(process::cargo());
    cargo.current_dir(folder).stdin(Stdio::null()).env(OPTIONS, machine(platform, 180));
    cargo.env("CARGO_TARGET_X86_64_UNKNOWN_HERMIT_RUNNER", format!("{} runner", runner.display()));
    cargo.env("CARGO_TARGET_X86_64_UNKNOWN_HERMIT_RUSTFLAGS", "-Cpanic=unwind");
    cargo.env("CARGO_TARGET_X86_64_UNKNOWN_HERMIT_RUSTDOCFLAGS", "-Cpanic=unwind");
    cargo.args(words).args(["--target", GUEST_TARGET]);
    cargo
}

/// Returns the command, changed so that it builds into the crate's own target folder.
fn in_own_target(mut command: Command) -> Command {
    command.env_remove("CARGO_TARGET_DIR");
    command
}

/// Creates a crate with the dependency, unless another ring has created it.
pub(super) fn make_crate(folder: &Path) -> Result<()> {
    let dependency = format!(
        "\n[target.'cfg(target_os = \"hermit\")'.dependencies]\nhermit-sys = {{ path = {:?} }}\n\n\
         [profile.release]\npanic = \"abort\"\n",
        workspace::root().join("hermit-sys").display().to_string()
    );
    new_crate(folder, "guest", &dependency, &[PROGRAM, cargo_test::TESTS].concat())
}

/// Creates a crate with these lines at the end of its manifest, unless another ring has created it.
fn new_crate(folder: &Path, name: &str, lines: &str, program: &str) -> Result<()> {
    let _guard = CRATE.lock().unwrap_or_else(PoisonError::into_inner);
    let manifest = folder.join("Cargo.toml");
    if manifest.exists() {
        return Ok(());
    }
    process::run(process::cargo().args(["new", "--quiet", "--vcs", "none", "--name", name]).arg(folder))?;
    let text = fs::read_to_string(&manifest)?;
    fs::write(&manifest, text + lines)?;
    fs::write(folder.join("src/main.rs"), program)?;
    Ok(())
}

/// `run` passes on arguments, variables, output and the exit code.
fn runs(platform: &str, image: &Path) -> Result<()> {
    let image = image.display().to_string();
    let run =
        ["run", &image, "--platform", platform, "--env", "GREETING=hi", "--cpus", "2", "--timeout", "180"];
    let arguments = [&run, ["--", "one", "--exit-code", "42"].as_slice()].concat();
    let output = expect(&mut xtask(&arguments)?, 42, "GREETING=hi\nprocessors: 2\n")?;
    ensure!(output.stdout.starts_with(b"Hello, world!\n"), "standard output starts with something else");
    Ok(())
}

/// `run` passes on the reports of the guest's kernel to standard error only. It also runs with closed
/// streams.
fn streams(platform: &str, image: &Path) -> Result<()> {
    let image = image.display().to_string();
    let run = ["run", &image, "--platform", platform, "--timeout", "180", "--", "null"];
    let output = expect(&mut xtask(&run)?, 139, "wrote to 0x0")?;
    ensure!(output.stdout.is_empty(), "a report is on standard output");
    for closed in ["2>&-", ">&-", ">&- 2>&-"] {
        let mut command = started_by(&xtask(&run)?, &["sh", "-c", &format!("exec \"$@\" {closed}"), "sh"]);
        expect(command.stdin(Stdio::null()), 139, "")?;
    }
    Ok(())
}

/// `run` attaches disks, whose file names may contain commas and blanks.
fn disk(platform: &str, images: &Images) -> Result<()> {
    let file = images.folder().join(format!("a disk, zeroed, {platform}"));
    fs::write(&file, vec![0; 4096])?;
    let file = file.display().to_string();
    let image = images.image("disk").display().to_string();
    let run = |disk: &str| {
        let rest = ["--block", disk, "--", "check", "/dev/vda"];
        xtask(&[&["run", &image, "--platform", platform, "--timeout", "180"], rest.as_slice()].concat())
    };
    expect(&mut run(&file)?, 0, "4096 bytes are as they were written")?;
    expect(&mut run(&format!("{file}:ro"))?, 1, "Permission denied").map(drop)
}

fn time_limit(platform: &str, image: &Path) -> Result<()> {
    let image = image.display().to_string();
    let mut command = xtask(&["run", &image, "--platform", platform, "--timeout", "1"])?;
    // The input does not end.
    let output = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = output.stderr(Stdio::piped()).spawn()?;
    let pipe = child.stdin.take();
    let result = child.wait_with_output()?;
    drop(pipe);
    let text = String::from_utf8_lossy(&result.stderr);
    ensure!(result.status.code() == Some(124) && text.contains("more than 1 s"), "{}: {text}", result.status);
    Ok(())
}
