//! Standard input: every byte, and its end.

use anyhow::{Result, ensure};

use crate::test::host::Host;
use crate::test::report::Report;

pub(super) fn test(report: &mut Report, host: &Host<'_>) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let long = b"the quick brown fox\n".repeat(500);
    let inputs: [(&str, &[u8]); 4] =
        [("text", b"Hello\nworld"), ("nothing", b""), ("every byte", &every_byte), ("10,000 bytes", &long)];
    for (name, input) in inputs {
        report.check(&format!("{host}: standard input, {name}"), || in_upper_case(host, input));
    }
}

fn in_upper_case(host: &Host<'_>, input: &[u8]) -> Result<()> {
    let count = format!("{} bytes", input.len());
    let outcome = host.guest("stdin", &[]).reads(input).expect(0, &[&count])?;
    let expected = input.to_ascii_uppercase();
    ensure!(outcome.output.starts_with(&expected), "the output is not the input in upper case\n{outcome}");
    Ok(())
}
