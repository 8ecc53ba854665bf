//! Standard input: every byte, and its end.

use anyhow::{Result, ensure};

use crate::test::host::Host;
use crate::test::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, host: &'a Host<'_>) {
    let inputs: [(&str, Vec<u8>); 4] = [
        ("text", b"Hello\nworld".to_vec()),
        ("nothing", Vec::new()),
        ("every byte", (0..=255).collect()),
        ("10,000 bytes", b"the quick brown fox\n".repeat(500)),
    ];
    for (name, input) in inputs {
        tests.add(format!("{host}: standard input, {name}"), move || in_upper_case(host, &input));
    }
}

fn in_upper_case(host: &Host<'_>, input: &[u8]) -> Result<()> {
    let count = format!("{} bytes", input.len());
    let outcome = host.guest("stdin", &[]).reads(input).expect(0, &[&count])?;
    let expected = input.to_ascii_uppercase();
    ensure!(outcome.output.starts_with(&expected), "the output is not the input in upper case\n{outcome}");
    Ok(())
}
