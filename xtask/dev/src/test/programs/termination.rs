//! Tests of requests to end a guest, by signals to the build tool or to uhyve. They cover all ways in which
//! the guest's program may handle a request.

use std::fs;

use anyhow::{Error, Result, bail, ensure};

use crate::children::children;
use crate::test::build_tool::xtask;
use crate::test::child::{ChildInput, ChildProcess, Outcome};
use crate::test::platform::{LIMIT, TestPlatform};
use crate::test::schedule::Tests;
use crate::test::uhyve::has_ended;

/// Grace period in seconds that is so long that no test reaches its end.
const LONG: &str = "1000";

/// Time limits in seconds for a guest that must be killed at its time limit. If the host was too slow to
/// start the guest in time, the test tries the next limit.
const TIME_LIMITS: [&str; 4] = ["2", "8", "32", "120"];

/// Bit of SIGHUP in a signal mask.
const HANGUP: u64 = 1;

/// Adds the tests.
pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    let mut add = |name: &str, test: Box<dyn FnOnce() -> Result<()> + Send + 'a>| {
        tests.add(format!("{platform}: {name}"), test);
    };
    add(
        "program that handles SIGTERM ends in order",
        Box::new(move || ends(platform, "TERM", &["wait"], &[])),
    );
    add("program that does not end is killed after the grace period", Box::new(move || is_killed(platform)));
    add(
        "program that does not handle SIGTERM ends at once",
        Box::new(move || ends_at_once(platform, "TERM", 143)),
    );
    if platform.is_slow() {
        return;
    }
    add(
        "program that does not handle Ctrl-C ends at once",
        Box::new(move || ends_at_once(platform, "INT", 130)),
    );
    let cpus = ["--cpus", "2"];
    add("SIGINT reaches busy CPUs", Box::new(move || ends(platform, "INT", &["wait", "2"], &cpus)));
    add("second signal ends the program", Box::new(move || second_signal(platform)));
    add("time limit holds during the grace period", Box::new(move || time_limit(platform)));
    add("SIGTERM with unread input", Box::new(move || unread_input(platform)));
    add("SIGTERM after the end of the input", Box::new(move || ended_input(platform)));
    tests.add_unless(
        reason_against_hangup(),
        format!("{platform}: program that asks for signals sees SIGHUP"),
        move || ends(platform, "HUP", &["poll"], &[]),
    );
    if platform.is_uhyve() {
        return;
    }
    for board in ["pc", "q35"] {
        tests.add(format!("{platform}: SIGTERM presses the power button, {board}"), move || {
            ends(platform, "TERM", &["wait"], &["--board", board])
        });
    }
    tests.add(format!("{platform}: QEMU ends with the build tool"), move || has_no_orphan(platform));
}

/// Returns a reason if SIGHUP does not reach programs that this process starts: nohup(1) makes a process
/// ignore the signal, and child processes inherit that.
fn reason_against_hangup() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let ignored = u64::from_str_radix(ignored.trim(), 16).ok()?;
    (ignored & HANGUP != 0).then(|| "SIGHUP is ignored (nohup)".to_owned())
}

/// Starts the example with arguments, and waits until it is ready.
fn start(
    platform: &TestPlatform<'_>,
    mode: &[&str],
    options: &[&str],
    input: ChildInput,
) -> Result<ChildProcess> {
    let (image, name) = (platform.images.image("shutdown"), platform.to_string());
    let image = image.display().to_string();
    let run = ["run", &image, "--platform", &name, "--memory", "32M"];
    let command = xtask(&[&run, options, &["--"], mode].concat())?;
    let running = ChildProcess::start(command, input, LIMIT)?;
    running.has_printed(b"READY\n")?;
    Ok(running)
}

/// Sends a signal to a program that handles it.
fn signalled(running: ChildProcess, signal: &str) -> Result<Outcome> {
    running.signal(signal)?;
    running.end()
}

fn ends(platform: &TestPlatform<'_>, signal: &str, mode: &[&str], options: &[&str]) -> Result<()> {
    let options = [&["--grace", LONG], options].concat();
    let outcome = signalled(start(platform, mode, &options, ChildInput::Nothing)?, signal)?;
    outcome.check(3, &["ending\n"])
}

fn ends_at_once(platform: &TestPlatform<'_>, signal: &str, code: i32) -> Result<()> {
    signalled(start(platform, &["unaware"], &["--grace", LONG], ChildInput::Nothing)?, signal)?
        .check(code, &[])
}

fn is_killed(platform: &TestPlatform<'_>) -> Result<()> {
    let outcome = signalled(start(platform, &["ignore"], &["--grace", "1"], ChildInput::Nothing)?, "TERM")?;
    // Does not check the program's own output: the program may be killed before it prints that it ignores the
    // request.
    outcome.check(137, &["did not end within 1 s"])
}

fn second_signal(platform: &TestPlatform<'_>) -> Result<()> {
    let running = start(platform, &["ignore"], &["--grace", LONG], ChildInput::Nothing)?;
    running.signal("TERM")?;
    running.has_printed(b"ignoring\n")?;
    signalled(running, "INT")?.check(130, &[])
}

fn time_limit(platform: &TestPlatform<'_>) -> Result<()> {
    let mut started = Err(Error::msg("there are no time limits"));
    for limit in TIME_LIMITS {
        started = start(platform, &["ignore"], &["--grace", LONG, "--timeout", limit], ChildInput::Nothing);
        if started.is_ok() {
            break;
        }
    }
    signalled(started?, "TERM")?.check(124, &["ran for more than"])
}

/// The input fills all buffers on its way to the guest, and the program does not read it.
fn unread_input(platform: &TestPlatform<'_>) -> Result<()> {
    let input = ChildInput::Open(b"0123456789\n".repeat(20_000));
    let running = start(platform, &["wait"], &["--grace", LONG], input)?;
    signalled(running, "TERM")?.check(3, &["ending\n"])
}

fn ended_input(platform: &TestPlatform<'_>) -> Result<()> {
    let running = start(platform, &["input"], &["--grace", LONG], ChildInput::Bytes(b"abc".to_vec()))?;
    running.has_printed(b"3 bytes of input\n")?;
    signalled(running, "TERM")?.check(3, &["ending\n"])
}

/// If the build tool is killed, QEMU is killed, too.
fn has_no_orphan(platform: &TestPlatform<'_>) -> Result<()> {
    let mut running = start(platform, &["wait"], &[], ChildInput::Nothing)?;
    let children = children(running.id())?;
    let [qemu] = children[..] else { bail!("the build tool has not one child but {children:?}") };
    running.kill()?;
    let outcome = running.end()?;
    ensure!(outcome.code.is_none(), "the build tool was not killed\n{outcome}");
    has_ended(qemu)
}
