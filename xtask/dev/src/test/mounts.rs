//! Tests of folders of the host in guests: `cargo xtask run --mount`.
//!
//! A mount is a virtio-fs device. uhyve serves the device itself; under QEMU the server is virtiofsd, which
//! needs root. Most tests run `kernel/tests/file_calls` with an option that selects a scenario, and then
//! compare the folder on the host with the expected state. The tests cover the semantics of files, hosts that
//! change, remove or fill the folder, and data that has to be written back when the guest ends.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermit_machines::virtiofsd::PROGRAM as VIRTIOFSD;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use super::build_tool::{expect, xtask};
use super::child::{ChildInput, ChildProcess, started_by};
use super::platform::{LIMIT, TestPlatform};
use super::schedule::Tests;
use crate::children::children;

/// Interval at which a test reads the file on the host.
const INTERVAL: Duration = Duration::from_millis(20);

/// Adds the tests on a platform. Without `long`, QEMU does not run all lines of `file_calls`, because that
/// takes much time.
pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    let has_server = Path::new(VIRTIOFSD).exists() && geteuid().is_root();
    if !(platform.is_uhyve() || has_server) {
        return tests.skip(format!("{platform}: folders of the host"), format!("{VIRTIOFSD} needs root"));
    }
    if platform.is_uhyve() || long {
        tests.add(format!("{platform}: std::fs in a folder of the host"), move || file_calls(platform));
    }
    tests.add(format!("{platform}: a folder of the host that is read only"), move || read_only(platform));
    tests.add(format!("{platform}: notes in a folder of the host, from machine to machine"), move || {
        notes(platform)
    });
    tests.add(format!("{platform}: a folder of the host that disappears"), move || {
        if platform.is_uhyve() { disappears(platform) } else { is_not_served(platform) }
    });
    tests.add(format!("{platform}: small writes to a folder of the host, and the end"), move || {
        collected(platform)
    });
    tests.add(
        format!("{platform}: a map of a file in the working directory, a folder of the host, and the end"),
        move || mapped(platform),
    );
    tests.add(format!("{platform}: a folder of the host without memory"), move || {
        // The first use of the device fails, and the program tries again. The warning must be printed only
        // once.
        let output = exhausted(platform, "exhausted-folder")?;
        let text =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let count = text.matches("warning: virtio-fs at ").count();
        ensure!(count == 1 && text.contains(": out of memory: "), "{count} warnings of the device: {text}");
        Ok(())
    });
    tests.add(format!("{platform}: calls for files without memory"), move || {
        exhausted(platform, "exhausted-files").map(drop)
    });
    if platform.is_uhyve() {
        tests.add(format!("{platform}: a folder that the host changes"), move || changes(platform));
    }
    tests.add_unless(cannot_mount(), format!("{platform}: a full file system of the host"), move || {
        full(platform, "--full", "4m")
    });
    if platform.is_uhyve() && !platform.is_slow() {
        tests.add_unless(cannot_mount(), format!("{platform}: threads in a folder of the host"), move || {
            full(platform, "--stress", "32m")
        });
    }
}

/// The host changes files that the guest has looked up. The guest sees the change or not, depending on the
/// cache policy. With the policy `auto`, the guest sees it after a second; host tests check that with a
/// simulated clock.
fn changes(platform: &TestPlatform<'_>) -> Result<()> {
    for (policy, seen) in [("never", "(1, false), then (2, true)"), ("always", "(1, false), then (1, false)")]
    {
        let folder = TempDir::new()?;
        fs::write(folder.path().join("file"), "1")?;
        let mount = format!("{}:/srv:ro,cache={policy}", folder.path().display());
        let command = run(platform, "file_calls", &["--mount", &mount], &["--changes", "/srv"])?;
        let running = ChildProcess::start(command, ChildInput::Nothing, LIMIT)?;
        running.has_printed(b"ready\n")?;
        for (name, contents) in [("file", "22"), ("new", ""), ("done", "")] {
            fs::write(folder.path().join(name), contents)?;
        }
        running.end()?.check(0, &[seen]).with_context(|| policy.to_owned())?;
    }
    Ok(())
}

/// The guest writes lines to a file and does not close the file. The host sees the first lines soon, and all
/// lines after the program has ended.
fn collected(platform: &TestPlatform<'_>) -> Result<()> {
    let lines: String = (0..1000).map(|line| format!("line {line}\n")).collect();
    for (mode, code) in [("--exit", 0), ("--abort", 134), ("--wait", 0)] {
        let folder = TempDir::new()?;
        let log = folder.path().join("log");
        let mount = format!("{}:/srv", folder.path().display());
        let command = run(platform, "file_calls", &["--mount", &mount], &[mode, "/srv"])?;
        let running = ChildProcess::start(command, ChildInput::Nothing, LIMIT)?;
        if mode == "--wait" {
            running.has_printed(b"ready\n")?;
            let start = Instant::now();
            while fs::read_to_string(&log)? != lines {
                ensure!(start.elapsed() < LIMIT, "the host does not see what the guest has written");
                thread::sleep(INTERVAL);
            }
            fs::write(folder.path().join("done"), "")?;
        }
        running.end()?.check(code, &[]).with_context(|| mode.to_owned())?;
        ensure!(fs::read_to_string(&log)? == lines, "{mode}: the host has not all lines");
    }
    Ok(())
}

/// The guest changes a shared mapping of a file (by memmap2) and ends without flushing or dropping the
/// mapping.
fn mapped(platform: &TestPlatform<'_>) -> Result<()> {
    let folder = TempDir::new()?;
    let file = folder.path().join("file");
    fs::write(&file, "contents")?;
    let mount = format!("{}:/srv", folder.path().display());
    let run = |workdir| {
        run(platform, "third_party", &["--mount", &mount, "--workdir", workdir], &["map-at-exit", "file"])
    };
    expect(
        &mut run("/srv/missing")?,
        125,
        "/srv/missing cannot be entered: it does not exist (error number 2)",
    )?;
    expect(&mut run("/srv")?, 0, "")?;
    let contents = fs::read_to_string(&file)?;
    ensure!(contents == "comapnts", "the file has {contents:?}");
    Ok(())
}

/// Returns the reason why this process cannot mount a file system in a mount namespace of its own, if it
/// cannot.
fn cannot_mount() -> Option<String> {
    let unshare = Command::new("unshare").args(["--mount", "true"]).output();
    let can = geteuid().is_root() && unshare.is_ok_and(|output| output.status.success());
    (!can).then(|| "only root mounts a file system, where there are namespaces".to_owned())
}

/// The file system of the folder becomes full, several times. `size` is its size in the syntax of mount(8).
fn full(platform: &TestPlatform<'_>, mode: &str, size: &str) -> Result<()> {
    let folder = TempDir::new()?;
    let path = folder.path().display().to_string();
    let command = run(platform, "file_calls", &["--mount", &format!("{path}:/srv")], &[mode, "/srv"])?;
    let script = format!("mount -t tmpfs -o size={size} tmpfs \"$0\" && exec \"$@\"");
    let mut command = started_by(&command, &["unshare", "--mount", "sh", "-c", &script, &path]);
    expect(&mut command, 0, "bytes until the file system was full").map(drop)
}

/// The folder is removed while a guest uses it.
fn disappears(platform: &TestPlatform<'_>) -> Result<()> {
    let folder = TempDir::new()?;
    let running = start_until_gone(platform, folder.path())?;
    fs::remove_dir_all(&folder)?;
    running.end()?.check(0, &["before and after"])
}

/// virtiofsd is killed while a guest uses the folder.
fn is_not_served(platform: &TestPlatform<'_>) -> Result<()> {
    let folder = TempDir::new()?;
    let running = start_until_gone(platform, folder.path())?;
    let name = Path::new(VIRTIOFSD).file_name().context("a program has a name")?;
    let server = child_named(running.id(), &name.to_string_lossy())?;
    kill_process(server, Signal::KILL)?;
    running.end()?.check(137, &["virtiofsd, which serves a mount, has ended"])
}

/// Starts a guest that uses a folder until the folder is gone.
fn start_until_gone(platform: &TestPlatform<'_>, folder: &Path) -> Result<ChildProcess> {
    let mount = format!("{}:/srv", folder.display());
    let command = run(platform, "file_calls", &["--mount", &mount], &["--gone", "/srv"])?;
    let running = ChildProcess::start(command, ChildInput::Nothing, LIMIT)?;
    running.has_printed(b"ready\n")?;
    Ok(running)
}

/// Returns the child of a process that has this name.
fn child_named(process: u32, name: &str) -> Result<Pid> {
    let is_it =
        |child: &u32| fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == name);
    let found = children(process)?.into_iter().find(is_it);
    let found = found.with_context(|| format!("{name} does not run"))?;
    Pid::from_raw(found.cast_signed()).context("a process has a number")
}

/// Returns the command `xtask run` of an example, with options such as a mount (`HOST:GUEST[:ro]`). Its time
/// limit is below [`LIMIT`], so that `xtask run` itself ends a guest that hangs, after it has printed the
/// guest's output.
fn run(platform: &TestPlatform<'_>, example: &str, options: &[&str], arguments: &[&str]) -> Result<Command> {
    let (image, name) = (platform.images.image(example).display().to_string(), platform.to_string());
    let machine = ["run", &image, "--platform", &name, "--timeout", "150", "--cpus", "2"];
    xtask(&[machine.as_slice(), options, &["--"], arguments].concat())
}

/// Runs a check of `abi_calls` that exhausts the memory, in a guest with a mounted folder.
fn exhausted(platform: &TestPlatform<'_>, check: &str) -> Result<Output> {
    let folder = TempDir::new()?;
    fs::write(folder.path().join("file"), "text of the host")?;
    let (image, name) = (platform.images.image("abi_calls").display().to_string(), platform.to_string());
    let mount = format!("{}:/srv", folder.path().display());
    let options =
        ["--platform", &name, "--timeout", "150", "--memory", "64M", "--mount", &mount, "--", check];
    expect(&mut xtask(&[&["run", &image], options.as_slice()].concat())?, 0, "ok")
}

fn file_calls(platform: &TestPlatform<'_>) -> Result<()> {
    let folder = TempDir::new()?;
    let mount = format!("{}:/srv/host", folder.path().display());
    let mut command = run(platform, "file_calls", &["--mount", &mount], &["--check-portable", "/srv/host"])?;
    expect(&mut command, 0, "lines as on Linux")?;
    let left = fs::read_dir(&folder)?.count();
    ensure!(left == 0, "{left} entries are left");
    Ok(())
}

fn read_only(platform: &TestPlatform<'_>) -> Result<()> {
    let folder = TempDir::new()?;
    let mount = format!("{}:/srv", folder.path().display());
    expect(&mut run(platform, "file_calls", &["--mount", &mount], &["--prepare", "/srv"])?, 0, "")?;
    let before = tree(folder.path())?;
    ensure!(!before.is_empty(), "the guest has made nothing");
    let mount = format!("{mount}:ro");
    expect(&mut run(platform, "file_calls", &["--mount", &mount], &["--read-only", "/srv"])?, 0, "")?;
    ensure!(tree(folder.path())? == before, "the guest has changed something");
    Ok(())
}

/// Returns the paths of all files below a folder, with their contents.
fn tree(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_directory = path.symlink_metadata()?.is_dir();
        found.push((path.display().to_string(), fs::read(&path).unwrap_or_default()));
        if is_directory {
            found.extend(tree(&path)?);
        }
    }
    found.sort();
    Ok(found)
}

/// Data that a guest has stored is available in the next guest, even though the first guest was killed while
/// it ran.
fn notes(platform: &TestPlatform<'_>) -> Result<()> {
    let folder = TempDir::new()?;
    let mount = format!("{}:/data", folder.path().display());
    let commands: String =
        (0..200).map(|number| format!("put {number} text {number}\nget {number}\n")).collect();
    let input = ChildInput::Open(commands.into_bytes());
    let running = ChildProcess::start(run(platform, "notes", &["--mount", &mount], &[])?, input, LIMIT)?;
    running.has_printed(b"text 20\n")?;
    running.signal("TERM")?;
    let outcome = running.end()?;
    ensure!(outcome.code != Some(0), "the guest has not been ended\n{outcome}");
    let log = fs::metadata(folder.path().join("notes.log")).context("the host does not see the log")?;
    ensure!(log.len() > 20 * 20, "the log has {} bytes\n{outcome}", log.len());
    expect(&mut run(platform, "notes", &["--mount", &mount], &["get", "20"])?, 0, "text 20\n").map(drop)
}
