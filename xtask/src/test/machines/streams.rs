//! Standard input and output: whatever they are connected to.

use std::fs::{self, File};

use anyhow::{Result, ensure};

use super::Ring;
use super::machine::Input;
use crate::test::report::Report;

/// How much goes through a pipe.
const LENGTH: usize = 100_000;

pub(super) fn test(report: &mut Report, ring: &Ring) {
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(LENGTH).collect();
    report.check("kvm: standard input, a pipe with every byte", || {
        copied(ring, Input::Bytes(bytes.clone()), &bytes)
    });
    report.check("kvm: standard input, a file", || {
        let path = ring.folder.path().join("input");
        fs::write(&path, &bytes[..5000])?;
        copied(ring, Input::File(File::open(path)?), &bytes[..5000])
    });
    report.check("kvm: standard input, /dev/null", || copied(ring, Input::Nothing, b""));
    report.check("kvm: standard input, closed", || {
        let machine = ring.machine("stdin", &[]).started_by(&["sh", "-c", "exec \"$@\" <&-", "sh"]);
        machine.expect(0, &["0 bytes"]).map(drop)
    });
    report.check("kvm: standard output, closed", || {
        let machine = ring.machine("hello_world", &["--exit-code", "3"]);
        machine.started_by(&["sh", "-c", "exec \"$@\" >&-", "sh"]).expect(3, &[]).map(drop)
    });
    report.check("kvm: standard output that nobody reads", || {
        // The pipe's reader ends before uhyve starts; the exit code goes by way of standard error.
        let script = "{ sleep 0.1; \"$@\"; echo \"code $?\" >&2; } | true";
        let machine = ring.machine("hello_world", &["--exit-code", "3"]);
        machine.started_by(&["sh", "-c", script, "sh"]).expect(0, &["code 3"]).map(drop)
    });
}

/// The program gets these bytes, and what it makes of them gets here.
fn copied(ring: &Ring, input: Input, bytes: &[u8]) -> Result<()> {
    let count = format!("{} bytes", bytes.len());
    let outcome = ring.machine("stdin", &[]).reads(input).expect(0, &[&count])?;
    let expected = [bytes.to_ascii_uppercase(), format!("{count}\n").into_bytes()].concat();
    let output = [outcome.output, outcome.errors].concat();
    ensure!(output == expected, "the output is not the input in upper case");
    Ok(())
}
