//! The test ring `std`: runs the tests of core, alloc and std in guests. The tests come from the sources of
//! the std that set-up has installed.
//!
//! All tests of an image run in the same machine, where libtest runs them. `skipped.txt` lists tests that are
//! not run.

mod build;
mod events;
mod machine;
mod skipped;
mod sources;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use hermit_machines::uhyve::{Engine, Uhyve};
use hermit_toolchain::setup;

use super::images::Images;
use super::platform::{TestPlatform, TestVmm};
use super::report::{Report, note};
use super::schedule::Tests;
use build::TestImage;
use machine::Totals;
use skipped::Skipped;

/// The packages with tests.
const PACKAGES: [&str; 4] = ["coretests", "alloctests", "std", "std-integration"];

/// Packages whose tests also run in QEMU.
const IN_QEMU: [&str; 2] = ["coretests", "alloctests"];

/// Builds the tests and runs them. With `long`, also runs each skipped test in a separate machine; such a
/// test must not pass.
pub(super) fn test(report: &mut Report, long: bool) -> Result<()> {
    setup::ensure_with_qemu()?;
    setup::install_kernel()?;
    let images = build::images(&sources::prepare()?)?;
    let none = Images::new()?;
    let uhyve = setup::uhyve()?;
    let in_qemu = TestVmm::Qemu { loader: setup::loader()?, uhyve: uhyve.clone() };
    let process = TestPlatform { vmm: TestVmm::Uhyve(Uhyve::check(uhyve)?, Engine::Process), images: &none };
    let qemu = TestPlatform { vmm: in_qemu, images: &none };
    let skipped = skipped::all()?;
    let nothing = Skipped::new();
    let skipped_of = |image: &TestImage| skipped.get(&image.package).unwrap_or(&nothing);
    let totals = Totals::default();
    let mut tests = Tests::default();
    for image in &images {
        let skipped = skipped_of(image);
        // Only this platform adds to the totals, so that each test counts once.
        add(&mut tests, &process, image, skipped, Some(&totals));
        if IN_QEMU.contains(&image.package.as_str()) {
            add(&mut tests, &qemu, image, skipped, None);
        }
    }
    tests.add("list of skipped tests", || machine::check_list(&process, &images, &skipped));
    for image in images.iter().filter(|_| long) {
        let (skipped, process) = (skipped_of(image), &process);
        tests.add(format!("skipped tests of {}", image.name), move || {
            let passed = machine::passing(process, image, skipped)?;
            ensure!(passed.is_empty(), "these tests pass, and should not be skipped: {passed:?}");
            Ok(())
        });
    }
    report.run(tests);
    println!("{totals}");
    Ok(())
}

/// Adds the run of an image on a platform. The run adds the image's tests to `totals`, if it gets them.
fn add<'a>(
    tests: &mut Tests<'a>,
    platform: &'a TestPlatform<'_>,
    image: &'a TestImage,
    skipped: &'a Skipped,
    totals: Option<&'a Totals>,
) {
    tests.add(format!("{} in {platform}", image.name), move || {
        let run = machine::run(platform, image, skipped)?;
        note(run.to_string());
        if let Some(totals) = totals {
            totals.add(&run);
        }
        run.check()
    });
}

/// Returns the skipped tests whose names are not in `names`, the tests of all images.
fn unknown<'a>(skipped: &'a Skipped, names: &BTreeSet<String>) -> Vec<&'a str> {
    skipped.keys().filter(|name| !names.contains(*name)).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::{Skipped, unknown};

    #[test]
    fn names_that_no_image_has_are_unknown() {
        let skipped: Skipped = ["a", "b"].map(|name| (name.to_owned(), String::new())).into();
        assert_eq!(unknown(&skipped, &["a".to_owned()].into()), ["b"]);
    }
}
