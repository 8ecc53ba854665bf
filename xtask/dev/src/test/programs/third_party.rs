//! Tests of crates from crates.io: `kernel/tests/third_party`.

use std::fs;

use anyhow::{Context, Result};
use hermit_toolchain::workspace;

use super::MUCH_MEMORY;
use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// File with the expected digests. A unit test of the program compares them with those on the host.
const EXPECTED: &str = "kernel/tests/third_party/expected.txt";

/// Adds tests that every crate computes the same digest in a guest as on the host.
pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) -> Result<()> {
    let digests = fs::read_to_string(workspace::root().join(EXPECTED)).context(EXPECTED)?;
    for digest in digests.lines().map(str::to_owned) {
        let (name, _) = digest.split_once(": ").with_context(|| format!("{EXPECTED}: {digest}"))?;
        let name = name.to_owned();
        tests.add(format!("{platform}, CPUs 2: third_party {name}"), move || {
            let guest = platform.guest("third_party", &[&name]).cpus(2).memory(MUCH_MEMORY);
            guest.expect(0, &[&digest]).map(drop)
        });
    }
    tests.add(format!("{platform}, CPUs 1: third_party parking_lot"), move || {
        platform.guest("third_party", &["parking_lot"]).expect(0, &["parking_lot: "]).map(drop)
    });
    Ok(())
}
