//! Results of mathematical functions, `kernel/tests/mathematics`, and of the loops of the bench suite
//! `plain`, `xtask/bench/plain_bench`.

use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Processors of QEMU that are tested in addition to its best one. The functions have variants for FMA and
/// AVX2; each of these processors lacks a feature that selects a variant.
const PROCESSORS: [&str; 3] = ["max,-fma", "max,-avx2", "max,-xsave"];

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: plain loops have the checksums of Linux"), move || {
        platform.guest("plain_bench", &["--small"]).expect(0, &["all checksums are right"]).map(drop)
    });
    tests.add(format!("{platform}: mathematical functions are exact to a unit"), move || {
        platform.guest("mathematics", &[]).expect(0, &["results are right"]).map(drop)
    });
    for processor in PROCESSORS.into_iter().filter(|_| !platform.is_uhyve()) {
        let name = format!("{platform}, processor {processor}: mathematical functions are exact to a unit");
        tests.add(name, move || {
            let guest = platform.guest("mathematics", &[]).qemu_options(&["-cpu", processor]);
            guest.expect(0, &["results are right"]).map(drop)
        });
    }
}
