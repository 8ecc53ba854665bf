//! Tests that the loops of the bench suite `plain` work: `xtask/bench/plain_bench`.

use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: plain loops have the checksums of Linux"), move || {
        platform.guest("plain_bench", &["--small"]).expect(0, &["all checksums are right"]).map(drop)
    });
}
