//! Standard input of a guest: every byte, and the end.

use anyhow::{Result, ensure};

use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    let inputs: [(&str, Vec<u8>); 4] = [
        ("text", b"Hello\nworld".to_vec()),
        ("nothing", Vec::new()),
        ("every byte", (0..=255).collect()),
        ("10,000 bytes", b"the quick brown fox\n".repeat(500)),
    ];
    for (name, input) in inputs {
        tests.add(format!("{platform}: standard input, {name}"), move || in_upper_case(platform, &input));
    }
}

fn in_upper_case(platform: &TestPlatform<'_>, input: &[u8]) -> Result<()> {
    let count = format!("{} bytes", input.len());
    let outcome = platform.guest("stdin", &[]).reads(input).expect(0, &[&count])?;
    let expected = input.to_ascii_uppercase();
    ensure!(outcome.output == expected, "the output is not the input in upper case\n{outcome}");
    Ok(())
}
