//! Tests of the arguments, the environment and the exit code of a program, and of machines of many sizes.

use anyhow::{Result, ensure};

use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Exit codes that are tested if there is not enough time to test all.
const CODES: [u8; 8] = [0, 1, 2, 42, 127, 128, 254, 255];

/// Sizes of memory in MiB: the minimum, a usual size, and a size with memory above 4 GiB.
const MEMORY: [u64; 3] = [8, 1024, 5 * 1024];

/// Numbers of CPUs.
const CPUS: [u32; 4] = [1, 2, 4, 64];

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    // A debug build executes several times as many instructions, too many for a slow host.
    let images: &[&str] = if platform.is_slow() { &["hello_world"] } else { &["hello_world", "debug"] };
    for image in images {
        tests.add(format!("{platform}: {image}, its arguments and a variable"), move || {
            greeting(platform, image)
        });
    }
    tests.add(format!("{platform}: arguments pass unchanged"), move || {
        let odd = ["", "a \"b\" \\ c", "--", "ü€\u{1F980}", "new\nline", "-x=1,2"];
        let texts: Vec<_> =
            odd.iter().enumerate().map(|(index, odd)| format!("argument {}: {odd}\n", index + 1)).collect();
        let mut texts: Vec<_> = texts.iter().map(String::as_str).collect();
        texts.push("GREETING=good \"day\"");
        platform.guest("hello_world", &odd).variable("GREETING=good \"day\"").expect(0, &texts).map(drop)
    });
    let codes = if platform.is_native() || (long && !platform.is_slow()) {
        (0..=255).collect()
    } else {
        CODES.to_vec()
    };
    tests.add(format!("{platform}: {} exit codes", codes.len()), move || {
        codes.iter().try_for_each(|&code| {
            let arguments = ["--exit-code", &code.to_string()];
            platform.guest("hello_world", &arguments).expect(code.into(), &[]).map(drop)
        })
    });
    for mebibytes in MEMORY {
        tests.add(format!("{platform}: boots with {mebibytes} MiB"), move || {
            platform.guest("hello_world", &[]).memory(mebibytes).expect(0, &["Hello, world!"]).map(drop)
        });
    }
    for cpus in CPUS {
        tests.add(format!("{platform}, CPUs {cpus}: available_parallelism"), move || {
            let text = format!("processors: {cpus}\n");
            platform.guest("hello_world", &[]).cpus(cpus).expect(0, &[&text]).map(drop)
        });
    }
}

fn greeting(platform: &TestPlatform<'_>, image: &str) -> Result<()> {
    let texts = ["Hello, world!", "hermit", "argument 1: one", "argument 2: two words", "GREETING=good day"];
    let guest = platform.guest(image, &["one", "two words"]).variable("GREETING=good day");
    let outcome = guest.expect(0, &texts)?;
    ensure!(
        outcome.output.starts_with(b"Hello, world!"),
        "standard output starts with something else\n{outcome}"
    );
    ensure!(outcome.errors.is_empty(), "there is something on standard error\n{outcome}");
    Ok(())
}
