//! The suite `plain`: measures plain loops that use std, in a guest of uhyve's process engine and as a
//! process of this host. Both are pinned to the same CPU.
//!
//! Other programs may slow the host down for seconds at a time. So each loop is measured in pairs, in which
//! the guest and the process run right after each other. The figure is the median of the ratios of the pairs.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_toolchain::process;
use serde_json::{Map, Value, json};

use super::beside_linux::BesideLinux;
use super::core::parse;
use super::native::median;

/// Number of pairs of each loop.
const PAIRS: usize = 9;

/// Minimum ratio of Linux's time to the guest's time.
const AIM: f64 = 0.95;

/// Time limit of a guest.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Memory of a guest.
const MEMORY: &str = "1G";

/// Number of CPUs of guest and process.
const CPUS: usize = 1;

/// Measures all loops, and prints and returns the figures. Returns null if the engine does not run code at
/// full speed on this host.
pub(super) fn main() -> Result<Value> {
    let Some(bench) = BesideLinux::prepare("plain_bench")? else { return Ok(Value::Null) };
    let loops = process::output(bench.process(CPUS).arg("--list"))?;
    println!("{:<72} {:>9} {:>9} {:>7}", "loop (milliseconds)", "ours", "Linux", "ratio");
    let mut all = Map::new();
    for (name, title) in loops.lines().filter_map(|line| line.split_once('\t')) {
        let guest = || time(bench.guest(CPUS, MEMORY, TIMEOUT), name, title);
        let times = pairs(guest, || time(bench.process(CPUS), name, title))?;
        let row = row(&times).context("there are no pairs")?;
        print(title, &row);
        all.insert(title.to_owned(), row);
    }
    ensure!(!all.is_empty(), "the program lists no loops");
    Ok(Value::Object(all))
}

fn print(title: &str, row: &Value) {
    let [ours, linux, ratio] = ["ours", "linux", "ratio"].map(|key| row[key].as_f64().unwrap_or(f64::NAN));
    let mark = if ratio < AIM { " missed" } else { "" };
    println!("{title:<72} {ours:>9.2} {linux:>9.2} {ratio:>7.2}{mark}");
}

/// Runs a loop with a command, and returns the loop's time. Fails if a checksum is wrong, because the program
/// then fails.
fn time(mut command: Command, name: &str, title: &str) -> Result<f64> {
    let text = process::output(command.arg(name))?;
    parse(&text)
        .get(title)
        .copied()
        .with_context(|| format!("the program printed no time of {title:?}:\n{text}"))
}

/// Returns pairs of times of the guest and of Linux. The two take turns to be first in a pair, so that each
/// profits equally often from caches that the other has filled.
fn pairs(guest: impl Fn() -> Result<f64>, linux: impl Fn() -> Result<f64>) -> Result<Vec<(f64, f64)>> {
    let pair = |number: usize| {
        if number.is_multiple_of(2) {
            let ours = guest()?;
            Ok((ours, linux()?))
        } else {
            let linux = linux()?;
            Ok((guest()?, linux))
        }
    };
    (0..PAIRS).map(pair).collect()
}

/// Returns the row of the record: the median times, and the median ratio with two decimals. If the ratio is
/// above 1, the guest is faster.
fn row(pairs: &[(f64, f64)]) -> Option<Value> {
    let median_of = |figure: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(figure).collect::<Vec<_>>());
    let (ours, linux) = (median_of(|pair| pair.0)?, median_of(|pair| pair.1)?);
    let ratio = (median_of(|(ours, linux)| linux / ours)? * 100.0).round() / 100.0;
    Some(json!({ "ours": ours, "linux": linux, "ratio": ratio }))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{PAIRS, pairs, row};

    #[test]
    fn ratio_is_the_median_of_the_ratios_of_pairs() {
        // The medians of the times are 3 and 4.
        let row = row(&[(1.0, 4.0), (3.0, 1.0), (10.0, 20.0)]).unwrap();
        assert_eq!(
            ["ours", "linux", "ratio"].map(|key| row[key].as_f64()),
            [Some(3.0), Some(4.0), Some(2.0)]
        );
        assert!(super::row(&[]).is_none());
    }

    #[test]
    fn first_of_a_pair_alternates() {
        let order = RefCell::new(String::new());
        let run = |letter, time| {
            order.borrow_mut().push(letter);
            Ok(time)
        };
        let pairs = pairs(|| run('g', 1.0), || run('l', 2.0)).unwrap();
        assert_eq!(pairs, [(1.0, 2.0); PAIRS]);
        assert!(order.borrow().starts_with("gllggl"));
    }
}
