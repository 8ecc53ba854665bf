//! Tests of standard input: a pipe, a file, /dev/null, and a closed descriptor.

use std::io::{Seek, Write};

use anyhow::{Result, ensure};

use super::Fixture;
use crate::test::child::ChildInput;
use crate::test::schedule::Tests;

/// Number of bytes of input: more than a pipe holds.
const LENGTH: usize = 100_000;

/// Number of bytes if the processor is emulated.
const FEW: usize = 10_000;

pub(super) fn test<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    fixture.add(tests, "standard input, a pipe with every byte", move || {
        let bytes = bytes(if fixture.platform.is_slow() { FEW } else { LENGTH });
        copied(fixture, ChildInput::Bytes(bytes.clone()), &bytes)
    });
    fixture.add(tests, "standard input, a file", move || {
        let (bytes, mut file) = (bytes(5000), tempfile::tempfile()?);
        file.write_all(&bytes)?;
        file.rewind()?;
        copied(fixture, ChildInput::File(file), &bytes)
    });
    fixture.add(tests, "standard input, /dev/null", move || copied(fixture, ChildInput::Nothing, b""));
    fixture.add(tests, "standard input, closed", move || {
        let machine = fixture.command("stdin", &[]).started_by(&["sh", "-c", "exec \"$@\" <&-", "sh"]);
        machine.expect(0, &["0 bytes"]).map(drop)
    });
}

/// Returns a sequence that contains every value of a byte.
fn bytes(length: usize) -> Vec<u8> {
    (0..=u8::MAX).cycle().take(length).collect()
}

/// The program copies these bytes from its input to its output, and the output arrives completely.
fn copied(fixture: &Fixture<'_>, input: ChildInput, bytes: &[u8]) -> Result<()> {
    let count = format!("{} bytes", bytes.len());
    let outcome = fixture.command("stdin", &[]).reads(input).expect(0, &[&count])?;
    let expected = [bytes.to_ascii_uppercase(), format!("{count}\n").into_bytes()].concat();
    let output = [outcome.output, outcome.errors].concat();
    ensure!(output == expected, "the output is not the input in upper case");
    Ok(())
}
