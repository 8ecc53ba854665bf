//! What a program finds around it, and its exit codes.

use anyhow::{Result, ensure};

use super::Ring;
use crate::test::report::Report;

/// Exit codes that must come through.
const CODES: [i32; 5] = [0, 1, 2, 42, 255];

pub(super) fn test(report: &mut Report, ring: &Ring) {
    report.check("kvm: hello_world", || {
        let texts =
            ["Hello, world!", "hermit", "argument 1: one", "argument 2: two words", "GREETING=good day"];
        let machine = ring.machine("hello_world", &["one", "two words"]);
        let outcome = machine.options(&["--env", "GREETING=good day"]).expect(0, &texts)?;
        ensure!(outcome.output.starts_with(b"Hello, world!\n"), "something else is on standard output");
        ensure!(outcome.errors.is_empty(), "there is something on standard error");
        Ok(())
    });
    report.check("kvm: arguments pass unchanged", || {
        let odd = ["", "a \"b\" \\ c", "--", "ü€\u{1F980}", "new\nline", "-x=1,2"];
        let texts: Vec<_> =
            odd.iter().enumerate().map(|(index, odd)| format!("argument {}: {odd}\n", index + 1)).collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        ring.machine("hello_world", &odd).expect(0, &texts).map(drop)
    });
    report.check("kvm: exit codes", || {
        CODES.iter().try_for_each(|&code| {
            let arguments = ["--exit-code", &code.to_string()];
            ring.machine("hello_world", &arguments).expect(code, &[]).map(drop)
        })
    });
    for cpus in [1, 2, 4, 64] {
        report.check(&format!("kvm: available_parallelism with {cpus} CPUs"), || processors(ring, cpus));
    }
    for memory in ["8M", "1G", "5G"] {
        report.check(&format!("kvm: boots with {memory}"), || {
            let machine = ring.machine("hello_world", &[]).options(&["--memory", memory]);
            machine.expect(0, &["Hello, world!"]).map(drop)
        });
    }
}

fn processors(ring: &Ring, cpus: u32) -> Result<()> {
    let text = format!("processors: {cpus}\n");
    ring.machine("hello_world", &[]).cpus(cpus).expect(0, &[&text]).map(drop)
}
