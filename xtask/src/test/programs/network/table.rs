//! Every call of `std::net`: `examples/net_calls`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::test::host::Host;
use crate::test::report::Report;
use crate::workspace;

/// What Linux prints, in the folder of `examples/net_calls`.
const EXPECTED: &str = "expected.txt";

/// The table takes half a minute on Linux, most of which is waiting.
const TIME: Duration = Duration::from_secs(240);

/// The families whose rows neither move megabytes nor compute much: 203 of 523.
const LIGHT: [&str; 9] =
    ["addresses", "bind", "connect", "datagram-error", "dual", "multicast", "names", "option", "stream"];

/// Every row of `net_calls` is as on Linux.
pub(super) fn test(report: &mut Report, host: &Host<'_>) {
    report.check(&format!("{host}: std::net as on Linux"), || table(host, &[]));
}

/// Rows are as on Linux where there is no time for all.
pub(super) fn test_light(report: &mut Report, host: &Host<'_>) {
    report.check(&format!("{host}: std::net as on Linux, where light"), || table(host, &LIGHT));
}

/// The rows of these families, or of all.
fn table(host: &Host<'_>, families: &[&str]) -> Result<()> {
    let file = workspace::root().join("examples/net_calls").join(EXPECTED);
    let expected = fs::read_to_string(file).with_context(|| format!("no {EXPECTED}"))?;
    let outcome = host.guest("net_calls", families).memory(256).more_time(TIME).run()?;
    let printed = outcome.text();
    let printed: BTreeMap<_, _> = printed.lines().filter_map(|line| line.split_once(": ")).collect();
    let is_meant = |name: &str| {
        families.is_empty() || name.split_once('.').is_some_and(|(family, _)| families.contains(&family))
    };
    let expected = expected.lines().filter_map(|line| line.split_once(": "));
    let expected: Vec<_> = expected.filter(|(name, _)| is_meant(name)).collect();
    ensure!(!expected.is_empty(), "{EXPECTED} has none of these rows");
    let mut wrong = Vec::new();
    for (name, result) in expected {
        let got = printed.get(name).copied();
        if got != Some(result) {
            wrong.push(format!("{name}\n  here  {}\n  Linux {result}", got.unwrap_or("nothing")));
        }
    }
    ensure!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), String::from_utf8_lossy(&outcome.errors));
    Ok(())
}
