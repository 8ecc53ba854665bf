//! Results of mathematical functions: `examples/mathematics`.

use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: mathematical functions are exact to a unit"), move || {
        platform.guest("mathematics", &[]).expect(0, &["results are right"]).map(drop)
    });
}
