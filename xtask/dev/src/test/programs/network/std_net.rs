//! Every call of `std::net`: `examples/net_calls`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::test::platform::Platform;
use crate::test::report::note;
use crate::test::schedule::Tests;
use xtask::workspace;

/// What Linux prints, in the folder of `examples/net_calls`.
const EXPECTED: &str = "expected.txt";

/// The table takes half a minute on Linux, most of which is waiting.
const TIME: Duration = Duration::from_secs(240);

/// How many rows may differ at first.
const FEW: usize = 5;

/// What is said of a row of which nothing was printed.
const NOTHING: &str = "nothing";

/// What no host is too busy for: `net_calls` gives a row a minute.
const FATAL: [&str; 3] = ["HANGS", "PANICS", NOTHING];

/// The families whose rows neither move megabytes nor compute much: 203 of 523.
const LIGHT: [&str; 9] =
    ["addresses", "bind", "connect", "datagram-error", "dual", "multicast", "names", "option", "stream"];

/// Every row of `net_calls` is as on Linux.
pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a Platform<'_>) {
    tests.add(format!("{platform}: std::net as on Linux"), move || table(platform, &[]));
}

/// Rows are as on Linux where there is no time for all.
pub(super) fn test_light<'a>(tests: &mut Tests<'a>, platform: &'a Platform<'_>) {
    tests.add(format!("{platform}: std::net as on Linux, where light"), move || table(platform, &LIGHT));
}

/// The rows of these families, or of all. Where the host is busy a few rows may be otherwise, but not once more and alone.
fn table(platform: &Platform<'_>, families: &[&str]) -> Result<()> {
    let file = workspace::root().join("examples/net_calls").join(EXPECTED);
    let expected = fs::read_to_string(file).with_context(|| format!("no {EXPECTED}"))?;
    let is_meant = |name: &str| {
        families.is_empty() || name.split_once('.').is_some_and(|(family, _)| families.contains(&family))
    };
    let expected = expected.lines().filter_map(|line| line.split_once(": "));
    let expected: Vec<_> = expected.filter(|(name, _)| is_meant(name)).collect();
    ensure!(!expected.is_empty(), "{EXPECTED} has none of these rows");
    let wrong = compare(platform, families, &expected)?;
    if may_be_chance(&wrong) {
        wrong.iter().for_each(|wrong| note(format!("tried again: {wrong}")));
        return wrong.iter().try_for_each(|wrong| {
            let (name, expected) = (&*wrong.name, &*wrong.expected);
            all_right(&compare(platform, &[name], &[(name, expected)])?)
        });
    }
    all_right(&wrong)
}

/// A row that is not as on Linux.
#[derive(Debug)]
struct Wrong {
    name: String,
    got: String,
    expected: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}\n  here  {}\n  Linux {}", self.name, self.got, self.expected)
    }
}

/// Runs rows with these names, and says which of the expected ones are wrong.
fn compare(platform: &Platform<'_>, names: &[&str], expected: &[(&str, &str)]) -> Result<Vec<Wrong>> {
    let outcome = platform.guest("net_calls", names).memory(256).more_time(TIME).run()?;
    let printed = outcome.text();
    let printed: BTreeMap<_, _> = printed.lines().filter_map(|line| line.split_once(": ")).collect();
    let wrong = expected.iter().filter_map(|&(name, expected)| {
        let got = printed.get(name).copied().unwrap_or(NOTHING);
        let wrong = || Wrong { name: name.to_owned(), got: got.to_owned(), expected: expected.to_owned() };
        (got != expected).then(wrong)
    });
    let wrong: Vec<_> = wrong.collect();
    if !wrong.is_empty() {
        note(String::from_utf8_lossy(&outcome.errors));
    }
    Ok(wrong)
}

/// Whether a busy host may be all that is wrong: it makes few rows differ, and neither hang nor end.
fn may_be_chance(wrong: &[Wrong]) -> bool {
    let is_fatal = |wrong: &Wrong| FATAL.contains(&&*wrong.got);
    (1..=FEW).contains(&wrong.len()) && !wrong.iter().any(is_fatal)
}

fn all_right(wrong: &[Wrong]) -> Result<()> {
    let wrong: Vec<_> = wrong.iter().map(Wrong::to_string).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{FEW, Wrong, may_be_chance};

    #[test]
    fn few_rows_that_differ_have_another_chance() {
        let rows = |count, got: &str| -> Vec<Wrong> {
            let row = || Wrong { name: "a.b".to_owned(), got: got.to_owned(), expected: "c".to_owned() };
            std::iter::repeat_with(row).take(count).collect()
        };
        assert!(may_be_chance(&rows(1, "d")) && may_be_chance(&rows(FEW, "d")));
        assert!(!may_be_chance(&rows(0, "d")) && !may_be_chance(&rows(FEW + 1, "d")));
        for got in ["HANGS", "PANICS", "nothing"] {
            assert!(!may_be_chance(&rows(1, got)), "{got}");
        }
    }
}
