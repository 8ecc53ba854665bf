//! uhyve's command line, its time limit, and signals.

use anyhow::{Result, ensure};

use super::Ring;
use super::machine::Input;
use crate::process;
use crate::test::report::Report;

pub(super) fn test(report: &mut Report, ring: &Ring) {
    report.check("kvm: --check", || check(ring));
    report.check("kvm: --help", || {
        let help = process::output(std::process::Command::new(&ring.uhyve.program).arg("--help"))?;
        ensure!(help.contains("Usage: uhyve") && help.contains("--block"), "{help}");
        Ok(())
    });
    report.check("kvm: --stats", || {
        let outcome = ring.machine("hello_world", &[]).options(&["--stats"]).expect(0, &[])?;
        let errors = String::from_utf8_lossy(&outcome.errors).into_owned();
        ensure!(errors.starts_with("uhyve: ran for ") && errors.contains("register writes"), "{errors}");
        Ok(())
    });
    report.check("kvm: a time limit", || {
        let machine = ring.machine("stdin", &[]).reads(Input::Open(Vec::new())).limit("0.5");
        machine.expect(124, &["more than 0.5 s and was ended"]).map(drop)
    });
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        for (name, arguments) in [("stdin", [].as_slice()), ("threads", &["tick"])] {
            report.check(&format!("kvm: SIG{signal} while {name} runs"), || {
                told_to_end(ring, (name, arguments), signal, code)
            });
        }
    }
    report.check("kvm: `auto` refuses a KVM that emulates", || {
        if ring.uhyve.is_fast {
            return ring.machine("hello_world", &[]).options(&["--engine", "auto"]).expect(0, &[]).map(drop);
        }
        let machine = super::Machine::new(
            std::process::Command::new(&ring.uhyve.program),
            &ring.image("hello_world"),
            &[],
        );
        machine.expect(125, &["merely emulates", "--engine kvm"]).map(drop)
    });
}

/// The exit code says whether a guest would run at full speed.
fn check(ring: &Ring) -> Result<()> {
    let output = std::process::Command::new(&ring.uhyve.program).arg("--check").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (code, expected) = if text.contains("kvm: works") { (0, true) } else { (125, false) };
    ensure!(
        output.status.code() == Some(code) && ring.uhyve.is_fast == expected,
        "{}: {text}",
        output.status
    );
    Ok(())
}

/// A guest that waits, or works, ends as soon as uhyve is told.
fn told_to_end(ring: &Ring, (image, arguments): (&str, &[&str]), signal: &str, code: i32) -> Result<()> {
    let machine = ring.machine(image, arguments).reads(Input::Open(b"tick\nTICK\n".to_vec())).start()?;
    machine.has_printed(if image == "stdin" { b"TICK" } else { b"tick" })?;
    machine.signal(signal)?;
    let outcome = machine.end()?;
    ensure!(outcome.code == Some(code), "it ended with {:?} instead of {code}\n{outcome}", outcome.code);
    Ok(())
}
