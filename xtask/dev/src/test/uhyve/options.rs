//! Tests of uhyve's command line, its time limit, and signals.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_machines::uhyve::{Engine, Uhyve};
use hermit_toolchain::{process, setup};

use super::Fixture;
use crate::test::build_tool;
use crate::test::child::ChildInput;
use crate::test::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    fixture.add(tests, "--check", move || check(fixture));
    fixture.add(tests, "--help", move || {
        let help = process::output(Command::new(&fixture.program).arg("--help"))?;
        ensure!(help.contains("Usage: uhyve") && help.contains("--block"), "{help}");
        Ok(())
    });
    fixture.add(tests, "--stats", move || {
        let outcome = fixture.command("hello_world", &[]).options(&["--stats"]).expect(0, &[])?;
        let errors = String::from_utf8_lossy(&outcome.errors).into_owned();
        ensure!(errors.starts_with("uhyve: ran for ") && errors.contains(" port writes"), "{errors}");
        Ok(())
    });
    fixture.add(tests, "a time limit", move || {
        let machine = fixture
            .command("stdin", &[])
            .reads(ChildInput::Open(Vec::new()))
            .limit(Duration::from_millis(500));
        machine.expect(124, &["more than 0.5 s and was killed"]).map(drop)
    });
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        for (name, arguments) in [("stdin", [].as_slice()), ("threads", &["tick"])] {
            fixture.add(tests, &format!("SIG{signal} while {name} runs"), move || {
                ends_by_signal(fixture, (name, arguments), signal, code)
            });
        }
    }
    fixture.add(tests, "choice of the engine", move || chooses_engine(fixture));
}

/// The exit code of `uhyve --check` tells if a guest would run at full speed.
fn check(fixture: &Fixture<'_>) -> Result<()> {
    let output = Command::new(&fixture.program).arg("--check").output().context("cannot start uhyve")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let works = |engine: &str| text.lines().any(|line| line.starts_with(&format!("{engine}: works")));
    let code = if works("kvm") || works("process") { 0 } else { 125 };
    let protections = [
        "landlock",
        "system call filters",
        "speculative store bypass",
        "indirect branch speculation",
        "core scheduling",
        "slowing of bus locks on kvm",
        "end of guests that keep a CPU on kvm",
        "refusal of unused MSRs on kvm",
        "jail",
    ];
    let names: Vec<_> = text.lines().map(|line| line.split(": ").next().unwrap_or_default()).collect();
    ensure!(names == [&["kvm", "process"], &protections[..]].concat(), "{text}");
    ensure!(output.status.code() == Some(code), "{}: {text}", output.status);
    Ok(())
}

/// Without `--engine`, uhyve uses the engine that runs code at full speed. If that is not KVM, uhyve prints
/// one line about it at each start. The build tool names the engine, so uhyve prints nothing then.
fn chooses_engine(fixture: &Fixture<'_>) -> Result<()> {
    let uhyve = Uhyve::check(setup::uhyve()?)?;
    let machine = || fixture.command_without_engine("hello_world");
    if !uhyve.is_fast {
        return machine().expect(125, &["uhyve: error: "]).map(drop);
    }
    let image = fixture.image("hello_world").display().to_string();
    let [first, second] = [machine(), machine()].map(|machine| machine.expect(0, &["Hello, world!"]));
    let mut by_tool = build_tool::xtask(&["run", &image, "--timeout", "180"])?;
    let by_tool = build_tool::expect(&mut by_tool, 0, "Hello, world!")?.stderr;
    let expected = usize::from(!uhyve.works(Engine::Kvm));
    for (errors, expected) in [(first?.errors, expected), (second?.errors, expected), (by_tool, 0)] {
        let errors = String::from_utf8_lossy(&errors);
        ensure!(errors.lines().count() == expected, "not {expected} lines: {errors}");
        ensure!(expected == 0 || errors.contains("uhyve --check`"), "no command: {errors}");
    }
    Ok(())
}

/// A guest that waits or computes ends when uhyve receives a signal.
fn ends_by_signal(
    fixture: &Fixture<'_>,
    (image, arguments): (&str, &[&str]),
    signal: &str,
    code: i32,
) -> Result<()> {
    let machine =
        fixture.command(image, arguments).reads(ChildInput::Open(b"tick\nTICK\n".to_vec())).start()?;
    machine.has_printed(if image == "stdin" { b"TICK" } else { b"tick" })?;
    machine.signal(signal)?;
    let outcome = machine.end()?;
    ensure!(outcome.code == Some(code), "it ended with {:?} instead of {code}\n{outcome}", outcome.code);
    Ok(())
}
