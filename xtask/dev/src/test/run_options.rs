//! Tests of options of `cargo xtask run` that work the same on every platform: environment, disks, ports.
//! Also tests of signals.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::build_tool::{expect, xtask};
use super::child::{ChildInput, ChildProcess};
use super::platform::{LIMIT, TestPlatform};
use super::schedule::Tests;

/// Adds the tests on a platform.
pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: run with variables of a file and of the host"), move || {
        environment(&platform.to_string(), &platform.images.image("hello_world"))
    });
    tests.add(format!("{platform}: run refuses a disk of partial sectors"), move || {
        partial_sectors(&platform.to_string(), &platform.images.image("disk"))
    });
    tests.add(format!("{platform}: run refuses a port in use"), move || {
        port_in_use(&platform.to_string(), &platform.images.image("httpd"))
    });
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        tests.add(format!("{platform}: run ends by SIG{signal}"), move || {
            ends_by_signal(platform, signal, code)
        });
    }
}

/// Returns the arguments of `xtask run IMAGE` on a platform, with a time limit and options.
fn run<'a>(platform: &'a str, image: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [&["run", image, "--platform", platform, "--timeout", "180"], options].concat()
}

fn environment(platform: &str, image: &Path) -> Result<()> {
    let (image, folder) = (image.display().to_string(), TempDir::new()?);
    let file = folder.path().join("variables");
    fs::write(&file, "# a comment\nUNUSED=1\nGREETING=from a \"file\"\n")?;
    let file = file.display().to_string();
    let command = |options: &[&str]| xtask(&run(platform, &image, options));
    expect(&mut command(&["--env-file", &file])?, 0, "GREETING=from a \"file\"\n")?;
    let mut of_host = command(&["--env-file", &file, "-e", "GREETING"])?;
    expect(of_host.env("GREETING", "of the host"), 0, "GREETING=of the host\n").map(drop)
}

fn partial_sectors(platform: &str, image: &Path) -> Result<()> {
    let (image, folder) = (image.display().to_string(), TempDir::new()?);
    let disk = folder.path().join("disk");
    fs::write(&disk, [0; 1000])?;
    let disk = disk.display().to_string();
    let mut command = xtask(&run(platform, &image, &["--block", &disk, "--", "size", "/dev/vda"]))?;
    expect(&mut command, 2, "has 1000 bytes, no multiple of 512").map(drop)
}

fn port_in_use(platform: &str, image: &Path) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let image = image.display().to_string();
    let mut command = xtask(&run(platform, &image, &["-p", &format!("{port}:8080")]))?;
    let message = format!("port {port} of the host is in use: forward another one, or stop the program");
    expect(&mut command, 125, &message).map(drop)
}

/// A guest that waits for input ends with the exit code `code` when `run` receives a signal.
fn ends_by_signal(platform: &TestPlatform<'_>, signal: &str, code: i32) -> Result<()> {
    let (name, image) = (platform.to_string(), platform.images.image("stdin").display().to_string());
    let running =
        ChildProcess::start(xtask(&run(&name, &image, &[]))?, ChildInput::Open(b"tick\n".to_vec()), LIMIT)?;
    running.has_printed(b"TICK")?;
    running.signal(signal)?;
    let outcome = running.end()?;
    ensure!(outcome.code == Some(code), "it ended with {:?} instead of {code}\n{outcome}", outcome.code);
    Ok(())
}
