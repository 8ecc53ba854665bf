//! `cargo test` for the target must behave as on Linux, although the runner boots a machine for each test,
//! whereas libtest on Linux runs all tests in one process.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::build_tool::{OPTIONS, expect};

/// Tests of a crate.
pub(super) const TESTS: &str = r#"
#[cfg(test)]
mod tests {
    fn check(number: u32) -> u32 {
        println!("checking {number}");
        assert!(number < 5, "{number} is too large");
        number
    }

    #[test]
    fn catches_a_panic() {
        let caught = std::panic::catch_unwind(|| check(6));
        assert_eq!(*caught.unwrap_err().downcast::<String>().unwrap(), "6 is too large");
        assert!(std::thread::spawn(|| check(9)).join().is_err());
    }

    #[test]
    fn captured() {
        println!("on standard output");
        eprintln!("on standard error");
    }

    #[test]
    fn fails() {
        check(3);
        check(7);
    }

    #[test]
    #[ignore = "does not end"]
    fn hangs() {
        loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }

    #[test]
    #[ignore = "its folder is not in QEMU's machines"]
    fn reads_a_file_of_the_package() {
        let manifest = std::fs::read_to_string("Cargo.toml").unwrap();
        assert!(manifest.contains(env!("CARGO_PKG_NAME")));
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert_eq!(std::fs::read_to_string(path).unwrap(), manifest);
        assert_eq!(std::fs::write("new", "").unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    }

    #[test]
    #[should_panic]
    fn panics() {
        check(8);
    }

    #[test]
    #[should_panic(expected = "too large")]
    fn panics_as_expected() {
        check(8);
    }

    #[test]
    #[should_panic(expected = "too small")]
    fn panics_otherwise() {
        check(9);
    }

    #[test]
    #[should_panic]
    fn does_not_panic() {}

    #[test]
    fn returns_an_error() -> Result<(), String> {
        Err("an error".into())
    }

    #[test]
    fn threads_work() {
        assert_eq!(std::thread::spawn(|| check(2)).join().unwrap(), 2);
    }
}
"#;

/// Compares `cargo test` of [`TESTS`] for the target with `cargo test` on the host. `guest` and `host` return
/// these commands without further arguments. `machine` returns the options of a machine with a time limit in
/// seconds.
pub(super) fn test(
    guest: impl Fn() -> Command,
    host: impl Fn() -> Command,
    machine: impl Fn(u32) -> String,
) -> Result<()> {
    let sequential = ["--", "--test-threads=1"];
    let on_host = results(host().args(sequential), 101)?;
    for cpus in [1, 2] {
        let mut command = guest();
        command.env(OPTIONS, format!("{} --cpus {cpus}", machine(180))).args(sequential);
        let on_guest = results(&mut command, 101)?;
        ensure!(on_guest == on_host, "with {cpus} CPUs:\n{on_guest:#?}\non the host:\n{on_host:#?}");
    }
    let failure =
        "---- tests::fails stdout ----\nchecking 3\nchecking 7\n\nthread 'main' (1) panicked at src/main.rs:";
    expect(guest().env_remove("RUST_BACKTRACE").args(["tests::fails"]), 101, failure)?;
    let backtrace = "   2: guest::tests::check\n   3: guest::tests::fails\n";
    expect(guest().args(["fails"]).env("RUST_BACKTRACE", "1"), 101, backtrace)?;
    let output = "---- tests::captured stdout ----\non standard output\non standard error\n\n\nsuccesses:\n";
    expect(guest().args(["captured", "--", "--show-output"]), 0, output)?;
    expect(
        guest().args(["--", "--skip", "s::", "-q"]),
        0,
        "ok. 0 passed; 0 failed; 0 ignored; 0 measured; 11",
    )?;
    expect(guest().args(["--", "--list"]), 0, "tests::captured: test\n")?;
    if !machine(20).contains("qemu") {
        let reads = ["reads_a_file", "--", "--ignored"];
        expect(guest().env(OPTIONS, machine(180)).args(reads), 0, "ok. 1 passed")?;
    }
    let mut hanging = guest();
    hanging.env(OPTIONS, machine(20)).args(["hangs", "--", "--ignored"]);
    expect(&mut hanging, 101, "more than 20 s").map(drop)
}

/// Returns the results of the tests, their names, and the summary without its time.
fn results(command: &mut Command, code: i32) -> Result<Vec<String>> {
    let output = expect(command, code, "test result: ")?;
    let text = String::from_utf8(output.stdout).context("the results are no text")?;
    let lines = text.lines().map(|line| line.split_once("; finished").map_or(line, |(summary, _)| summary));
    let is_name =
        |line: &str| ["running ", "test result", "    tests::"].iter().any(|start| line.starts_with(start));
    // With panic=abort, libtest's own messages are in the output of the test, and also begin with "test ".
    let is_result = |line: &str| line.starts_with("test ") && line.contains(" ... ");
    Ok(lines.filter(|line| is_name(line) || is_result(line)).map(str::to_owned).collect())
}
