//! Functions in C, C++ and Fortran: `kernel/tests/c_code`.

use std::fs;

use anyhow::{Context, Result, ensure};
use hermit_toolchain::{process, workspace};

use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// File with the program's output on Linux. A test of the example checks it.
const EXPECTED: &str = "kernel/tests/c_code/expected.txt";

/// Languages other than C, with their compilers. Output lines about a language contain its name.
const LANGUAGES: [(&str, &str); 2] = [("C++", "g++"), ("Fortran", "gfortran")];

/// Exit status of the program if it calls `_Exit`.
const IMMEDIATE_STATUS: i32 = 3;

/// Lines that a function of `atexit` and a destructor print.
const EXIT_TEXTS: [&str; 2] = ["C: at exit", "C++: destructor"];

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) -> Result<()> {
    if let Some(reason) = platform.images.c_code_error() {
        tests.skip(format!("{platform}: functions in C, C++ and Fortran"), reason);
        return Ok(());
    }
    let expected = fs::read_to_string(workspace::root().join(EXPECTED)).context(EXPECTED)?;
    let mut lines: Vec<_> = expected.lines().map(str::to_owned).collect();
    for (language, compiler) in LANGUAGES {
        if process::find(compiler).is_none() {
            tests.skip(format!("{platform}: functions in {language}"), format!("there is no {compiler}"));
            lines.retain(|line| !line.contains(language));
        }
    }
    for cpus in [1, 4] {
        let lines = lines.clone();
        tests.add(format!("{platform}, CPUs {cpus}: functions in C"), move || {
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            platform.guest("c_code", &[]).variable("GREETING=hello").cpus(cpus).expect(0, &lines).map(drop)
        });
    }
    tests.add(format!("{platform}: `_Exit` in C"), move || {
        let guest = platform.guest("c_code", &["immediately"]).variable("GREETING=hello");
        let outcome = guest.expect(IMMEDIATE_STATUS, &["threads of C and Rust"])?;
        let text = outcome.text();
        let found = EXIT_TEXTS.iter().find(|found| text.contains(**found));
        ensure!(found.is_none(), "a function for the exit was called: {outcome}");
        Ok(())
    });
    Ok(())
}
