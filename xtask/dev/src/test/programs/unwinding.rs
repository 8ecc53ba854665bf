//! Tests of the effects of panics: `kernel/tests/unwinding`.

use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Argument of the program, its exit code as on Linux, and a text that it prints.
const ENDINGS: [(&str, i32, &str); 5] = [
    ("main", 101, "in the main thread"),
    ("destructor", 134, "in a destructor, while unwinding"),
    ("foreign", 134, "panic in a function that cannot unwind"),
    ("hook", 134, "in the hook"),
    ("thread", 0, "joined with an error: true"),
];

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    for cpus in [1, 4] {
        tests.add(format!("{platform}, CPUs {cpus}: panics unwind as on Linux"), move || {
            platform.guest("unwinding", &[]).cpus(cpus).expect(0, &["rows as on Linux"]).map(drop)
        });
    }
    for (ending, code, text) in ENDINGS {
        tests.add(format!("{platform}: unwinding {ending}"), move || {
            platform.guest("unwinding", &[ending]).expect(code, &[text]).map(drop)
        });
    }
}
