//! Standard input, whatever it is connected to.

use std::fs::{self, File};

use anyhow::{Result, ensure};

use super::Ring;
use crate::test::report::Report;
use crate::test::running::Input;

/// How much goes through a pipe.
const LENGTH: usize = 100_000;

pub(super) fn test(report: &mut Report, ring: &Ring<'_>) {
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(LENGTH).collect();
    ring.check(report, "standard input, a pipe with every byte", || {
        copied(ring, Input::Bytes(bytes.clone()), &bytes)
    });
    ring.check(report, "standard input, a file", || {
        let path = ring.host.examples.folder().join("input");
        fs::write(&path, &bytes[..5000])?;
        copied(ring, Input::File(File::open(path)?), &bytes[..5000])
    });
    ring.check(report, "standard input, /dev/null", || copied(ring, Input::Nothing, b""));
    ring.check(report, "standard input, closed", || {
        let machine = ring.machine("stdin", &[]).started_by(&["sh", "-c", "exec \"$@\" <&-", "sh"]);
        machine.expect(0, &["0 bytes"]).map(drop)
    });
}

/// The program gets these bytes, and what it makes of them gets here.
fn copied(ring: &Ring<'_>, input: Input, bytes: &[u8]) -> Result<()> {
    let count = format!("{} bytes", bytes.len());
    let outcome = ring.machine("stdin", &[]).reads(input).expect(0, &[&count])?;
    let expected = [bytes.to_ascii_uppercase(), format!("{count}\n").into_bytes()].concat();
    let output = [outcome.output, outcome.errors].concat();
    ensure!(output == expected, "the output is not the input in upper case");
    Ok(())
}
