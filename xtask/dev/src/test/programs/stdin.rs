//! Tests of a guest's standard input: every byte arrives, and the end of file.

use std::fs;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

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
    if !platform.is_uhyve() {
        tests.add(format!("{platform}: an interrupt for several bytes of input"), move || {
            interrupts(platform)
        });
    }
}

/// Text in QEMU's trace of the 8259A for an interrupt of the first serial port.
const SERIAL_INTERRUPT: &str = "pic_interrupt irq 4 ";

/// Minimum average number of bytes per interrupt. The port has a FIFO of 16 bytes, and interrupts when it
/// contains 14 bytes, or when no byte follows.
const BYTES_PER_INTERRUPT: usize = 4;

fn interrupts(platform: &TestPlatform<'_>) -> Result<()> {
    let input = b"the quick brown fox\n".repeat(500);
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let trace = folder.path().join("trace");
    let options = ["-trace", "pic_interrupt", "-D", &trace.display().to_string()];
    let outcome = platform.guest("stdin", &[]).qemu_options(&options).reads(&input).expect(0, &[])?;
    ensure!(
        outcome.output == input.to_ascii_uppercase(),
        "the output is not the input in upper case\n{outcome}"
    );
    let text = fs::read_to_string(&trace).context("QEMU has written no trace")?;
    let count = text.lines().filter(|line| line.contains(SERIAL_INTERRUPT)).count();
    let max = input.len() / BYTES_PER_INTERRUPT;
    ensure!((1..=max).contains(&count), "{count} interrupts for {} bytes", input.len());
    Ok(())
}

fn in_upper_case(platform: &TestPlatform<'_>, input: &[u8]) -> Result<()> {
    let count = format!("{} bytes", input.len());
    let outcome = platform.guest("stdin", &[]).reads(input).expect(0, &[&count])?;
    let expected = input.to_ascii_uppercase();
    ensure!(outcome.output == expected, "the output is not the input in upper case\n{outcome}");
    Ok(())
}
