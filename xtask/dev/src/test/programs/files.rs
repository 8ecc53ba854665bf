//! Files: `examples/file_calls`.

use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Memory in MiB of the guest whose file system is filled.
const MEMORY: u64 = 64;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: std::fs as on Linux"), move || {
        platform.guest("file_calls", &["--check"]).cpus(2).expect(0, &["lines as on Linux"]).map(drop)
    });
    tests.add(format!("{platform}, CPUs 4: files in threads, and a full file system"), move || {
        platform.guest("file_calls", &["--stress"]).cpus(4).memory(MEMORY).expect(0, &["ok"]).map(drop)
    });
}
