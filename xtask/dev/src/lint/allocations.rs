//! Lint: the kernel must not call methods whose allocations end the machine if there is no memory. Instead,
//! it must return `ENOMEM` to the caller.
//!
//! `allocations/clippy.toml` lists the methods that allocate and do not return errors. Clippy, which knows
//! the types, reports each call of such a method. `allocations/allowed.txt` lists the allowed calls, by file
//! and method, with their number and the reason: the memory was reserved before, or no program runs yet. A
//! call that is not listed is an error, and so is an entry whose number is wrong.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use hermit_toolchain::target::{BARE_TARGET, GUEST_TARGET};
use hermit_toolchain::{process, workspace};
use serde_json::Value;

use super::ABORT;

/// Folder of `clippy.toml` and `allowed.txt`.
const FOLDER: &str = "xtask/dev/src/lint/allocations";

/// Name of the file with the allowed calls.
const ALLOWED: &str = "allowed.txt";

/// Clippy's lints that report the methods and macros in `clippy.toml`.
const LINTS: [&str; 2] = ["clippy::disallowed_methods", "clippy::disallowed_macros"];

/// A file and a method or macro that it calls.
type Call = (String, String);

/// The packages of an image, with their targets. The other crates of the kernel are their dependencies.
const PACKAGES: [(&str, &str); 2] = [("hermit-kernel", BARE_TARGET), ("hermit-net", GUEST_TARGET)];

/// Checks the kernel and the network stack.
pub(super) fn check() -> Result<()> {
    let folder = workspace::root().join(FOLDER);
    let allowed = std::fs::read_to_string(folder.join(ALLOWED)).context("the list of allowed calls")?;
    let mut found = BTreeMap::new();
    for (package, target) in PACKAGES {
        for (call, count) in calls(&process::output(&mut clippy(&folder, package, target))?)? {
            // Some crates are in both packages, so their calls are reported twice and must count once.
            found.entry(call).and_modify(|known: &mut usize| *known = count.max(*known)).or_insert(count);
        }
    }
    let violations = compare(&allowed, &found)?;
    for violation in &violations {
        eprintln!("{violation}");
    }
    if !violations.is_empty() {
        bail!(
            "{} differences from {FOLDER}/{ALLOWED}: use a method that can fail, or list the call",
            violations.len()
        );
    }
    Ok(())
}

/// Returns a command that runs clippy with [`LINTS`] alone. Its target folder is separate, because the
/// configuration differs from that of other runs: in a shared folder, each run would check everything again.
fn clippy(folder: &Path, package: &str, target: &str) -> Command {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).env("CLIPPY_CONF_DIR", folder);
    cargo.args(["clippy", "--quiet", "--message-format=json", "--package", package, "--target", target]);
    cargo.arg("--target-dir").arg(workspace::target_dir().join("allocations"));
    if target == GUEST_TARGET {
        cargo.args(["--config", ABORT]);
    }
    cargo.args(["--", "-A", "clippy::all"]);
    cargo.args(LINTS.iter().flat_map(|lint| ["-W", lint]));
    cargo
}

/// Returns the calls that clippy's messages report, with their numbers.
fn calls(messages: &str) -> Result<BTreeMap<Call, usize>> {
    let mut calls = BTreeMap::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("cannot understand cargo's messages")?;
        let message = &message["message"];
        if !message["code"]["code"].as_str().is_some_and(|code| LINTS.contains(&code)) {
            continue;
        }
        let text = message["message"].as_str().unwrap_or_default();
        let file = message["spans"][0]["file_name"].as_str().unwrap_or_default();
        // The code is from a macro of another crate.
        if Path::new(file).is_absolute() {
            continue;
        }
        let method = text.split('`').nth(1).with_context(|| format!("{file}: {text}"))?;
        *calls.entry((file.to_owned(), method.to_owned())).or_default() += 1;
    }
    Ok(calls)
}

/// Compares the calls with the list of allowed calls, and returns the differences.
fn compare(allowed: &str, found: &BTreeMap<Call, usize>) -> Result<Vec<String>> {
    let mut expected = BTreeMap::new();
    for line in allowed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.splitn(4, ' ');
        let (Some(file), Some(method), Some(count), Some(_reason)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            bail!("`{line}` is no file, method, number and reason");
        };
        let count: usize = count.parse().with_context(|| format!("the number in `{line}`"))?;
        if expected.insert((file.to_owned(), method.to_owned()), count).is_some() {
            bail!("{file} and {method} are listed twice");
        }
    }
    let all = expected.keys().chain(found.keys().filter(|call| !expected.contains_key(*call)));
    let count = |of: &BTreeMap<Call, usize>, call| of.get(call).copied().unwrap_or(0);
    let differences = all.filter_map(|call| {
        let (allowed, found) = (count(&expected, call), count(found, call));
        let (file, method) = call;
        (allowed != found).then(|| format!("{file} {method} {found}: {allowed} are allowed"))
    });
    Ok(differences.collect())
}

#[cfg(test)]
mod tests {
    use super::{LINTS, calls, compare};

    fn message(lint: &str, file: &str, method: &str) -> String {
        let text = format!("use of a disallowed method `{method}`");
        let message = serde_json::json!({
            "message": { "code": { "code": lint }, "message": text, "spans": [{ "file_name": file }] }
        });
        message.to_string()
    }

    #[test]
    fn calls_are_counted_by_file_and_method() {
        let [method, other] = ["alloc::vec::Vec::push", "alloc::boxed::Box::new"];
        let lines = [
            message(LINTS[0], "a.rs", method),
            message(LINTS[0], "a.rs", method),
            message("clippy::needless_return", "a.rs", method),
            message(LINTS[0], "b.rs", other),
            message(LINTS[0], "/registry/c.rs", other),
            r#"{"reason":"build-finished"}"#.to_owned(),
        ];
        let found = calls(&lines.join("\n")).unwrap();
        assert_eq!(found.values().copied().collect::<Vec<_>>(), [2, 1]);
        let allowed =
            "# Comment\n\na.rs alloc::vec::Vec::push 2 reserved\nb.rs alloc::boxed::Box::new 1 at boot\n";
        assert!(compare(allowed, &found).unwrap().is_empty());
        let fewer = "a.rs alloc::vec::Vec::push 1 reserved\nc.rs alloc::boxed::Box::new 1 at boot\n";
        let differences = compare(fewer, &found).unwrap();
        assert_eq!(differences.len(), 3, "{differences:?}");
        assert!(compare("a.rs alloc::vec::Vec::push\n", &found).is_err());
    }
}
