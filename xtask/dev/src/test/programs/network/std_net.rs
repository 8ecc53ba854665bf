//! Tests every call of `std::net`: the results must be the same as on Linux. The program is
//! `kernel/tests/net_calls`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_toolchain::workspace;

use crate::test::platform::TestPlatform;
use crate::test::report::note;
use crate::test::schedule::Tests;

/// Output on Linux, in the folder of `kernel/tests/net_calls`.
const EXPECTED: &str = "expected.txt";

/// Extension of the time limit of the guest. On Linux, the table takes half a minute, mostly waiting.
const MORE_TIME: Duration = Duration::from_secs(240);

/// Maximum number of differing rows that are repeated.
const MAX_REPEATED: usize = 5;

/// Text in place of the output of a row that is missing.
const MISSING: &str = "nothing";

/// Results that cannot be due to a busy host, because `net_calls` gives each row a minute.
const FATAL: [&str; 3] = ["HANGS", "PANICS", MISSING];

/// The families of rows that neither transfer megabytes nor compute much. They have 252 of 572 rows.
const LIGHT: [&str; 10] = [
    "addresses",
    "bind",
    "connect",
    "datagram-error",
    "dual",
    "epoll",
    "multicast",
    "names",
    "option",
    "stream",
];

/// One row of each of these families, which an emulated processor runs in seconds. That is enough there,
/// because other platforms run all rows with the same code of kernel and network stack.
const SAMPLE: [&str; 10] = [
    "addresses.accept_names_the_peer",
    "bind.listener_twice",
    "connect.refused",
    "datagram-error.refused_wakes",
    "dual.connect_mapped",
    "epoll.edge",
    "multicast.members_receive",
    "names.connect_by_name",
    "option.error",
    "stream.echo",
];

/// Adds a test that every row of `net_calls` is as on Linux.
pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: std::net as on Linux"), move || table(platform, &[]));
}

/// Adds a test for hosts that emulate the processor: a selection of rows is as on Linux.
pub(super) fn test_light<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    let rows = if long { LIGHT } else { SAMPLE };
    tests.add(format!("{platform}: std::net as on Linux, a sample"), move || table(platform, &rows));
}

/// Compares the rows with these names or families, or all rows. If only a few rows differ, repeats them one
/// by one, because the host may have been busy.
fn table(platform: &TestPlatform<'_>, names: &[&str]) -> Result<()> {
    let file = workspace::root().join("kernel/tests/net_calls").join(EXPECTED);
    let expected = fs::read_to_string(file).with_context(|| format!("no {EXPECTED}"))?;
    let is_chosen = |row: &str| names.is_empty() || names.iter().any(|name| begins_with(row, name));
    let expected = expected.lines().filter_map(|line| line.split_once(": "));
    let expected: Vec<_> = expected.filter(|(name, _)| is_chosen(name)).collect();
    ensure!(!expected.is_empty(), "{EXPECTED} has none of these rows");
    let wrong = compare(platform, names, &expected)?;
    if may_be_repeated(&wrong) {
        wrong.iter().for_each(|wrong| note(format!("tried again: {wrong}")));
        return wrong.iter().try_for_each(|wrong| {
            let (name, expected) = (&*wrong.name, &*wrong.expected);
            all_right(&compare(platform, &[name], &[(name, expected)])?)
        });
    }
    all_right(&wrong)
}

/// Returns true if `net_calls` runs the row for the argument `name`: it may be the name of the row, of the
/// row's family, or of the row without its IP version.
fn begins_with(row: &str, name: &str) -> bool {
    row.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A row that is not as on Linux.
#[derive(Debug)]
struct Difference {
    name: String,
    got: String,
    expected: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}\n  here  {}\n  Linux {}", self.name, self.got, self.expected)
    }
}

/// Runs the rows with these names. Returns the rows whose results differ from the expected ones.
fn compare(
    platform: &TestPlatform<'_>,
    names: &[&str],
    expected: &[(&str, &str)],
) -> Result<Vec<Difference>> {
    let outcome = platform.guest("net_calls", names).memory(256).more_time(MORE_TIME).run()?;
    let printed = outcome.text();
    let printed: BTreeMap<_, _> = printed.lines().filter_map(|line| line.split_once(": ")).collect();
    let wrong = expected.iter().filter_map(|&(name, expected)| {
        let got = printed.get(name).copied().unwrap_or(MISSING);
        let wrong =
            || Difference { name: name.to_owned(), got: got.to_owned(), expected: expected.to_owned() };
        (got != expected).then(wrong)
    });
    let wrong: Vec<_> = wrong.collect();
    if !wrong.is_empty() {
        note(String::from_utf8_lossy(&outcome.errors));
    }
    Ok(wrong)
}

/// Returns true if a busy host may be the cause of the differences: only a few rows differ, and no row hangs
/// or ends the program.
fn may_be_repeated(wrong: &[Difference]) -> bool {
    let is_fatal = |wrong: &Difference| FATAL.contains(&&*wrong.got);
    (1..=MAX_REPEATED).contains(&wrong.len()) && !wrong.iter().any(is_fatal)
}

fn all_right(wrong: &[Difference]) -> Result<()> {
    let wrong: Vec<_> = wrong.iter().map(Difference::to_string).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Difference, LIGHT, MAX_REPEATED, SAMPLE, begins_with, may_be_repeated};

    #[test]
    fn sample_has_a_behaviour_of_each_light_family() {
        let expected = include_str!("../../../../../../kernel/tests/net_calls/expected.txt");
        for (family, name) in LIGHT.into_iter().zip(SAMPLE) {
            let (rest, is_row) = (name.strip_prefix(family), |line: &str| {
                line.split_once(": ").is_some_and(|(row, _)| begins_with(row, name))
            });
            assert!(rest.is_some_and(|rest| rest.starts_with('.')) && expected.lines().any(is_row), "{name}");
        }
    }

    #[test]
    fn only_few_harmless_differences_are_repeated() {
        let rows = |count, got: &str| -> Vec<Difference> {
            let row = || Difference { name: "a.b".to_owned(), got: got.to_owned(), expected: "c".to_owned() };
            std::iter::repeat_with(row).take(count).collect()
        };
        assert!(may_be_repeated(&rows(1, "d")) && may_be_repeated(&rows(MAX_REPEATED, "d")));
        assert!(!may_be_repeated(&rows(0, "d")) && !may_be_repeated(&rows(MAX_REPEATED + 1, "d")));
        for got in ["HANGS", "PANICS", "nothing"] {
            assert!(!may_be_repeated(&rows(1, got)), "{got}");
        }
    }
}
