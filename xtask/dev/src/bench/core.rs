//! Suites that count instructions: `xtask/bench/core_bench` runs in a guest of this kernel and in a Linux
//! guest on the same host.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::iter;

use anyhow::{Result, ensure};
use hermit_machines::qemu::{End, Guest, Input};
use hermit_toolchain::setup;
use serde_json::{Map, Value, json};

use super::linux::{self, Linux};
use super::operations::{CORE, Count, MEMORY, Operation, TIMEOUT};
use super::{COUNT_INSTRUCTIONS, example};
use xtask::program;

/// Name of the calibration figure: ticks of the time-stamp counter per instruction.
const TICKS_PER_INSTRUCTION: &str = "ticks of an instruction";

/// Maximum deviation of the calibration figure from 1. On Linux, the figure includes timer interrupts.
const MAX_TICKS_ERROR: f64 = 0.02;

/// Figures by operation.
type Figures = BTreeMap<String, f64>;

/// Measures the suite `core`, prints and returns its figures.
pub(super) fn main() -> Result<Value> {
    instructions(&CORE)
}

/// Measures operations, and prints and returns their figures.
pub(super) fn instructions(operations: &[Operation]) -> Result<Value> {
    let ours = ours(operations)?;
    let linux = Linux::with_init("core_bench").and_then(|linux| {
        measure(operations, |words| {
            let guest = Guest {
                memory: MEMORY.parse().map_err(anyhow::Error::msg)?,
                timeout: Some(TIMEOUT),
                ..linux.guest(words).with_options(&COUNT_INSTRUCTIONS)
            };
            linux::run(&guest)
        })
    });
    let linux = linux.unwrap_or_else(|error| {
        eprintln!("the Linux guest is not available: {error:#}");
        Figures::new()
    });
    println!("{:<44} {:>13} {:>13} {:>8}", "operation (instructions)", "ours", "Linux guest", "aim");
    let mut all = Map::new();
    for Operation { title: name, count, .. } in counted(operations) {
        let aim = count.aim();
        let limit = aim.map(|aim| aim.to_string()).unwrap_or_default();
        println!("{name:<44} {:>13} {:>13} {limit:>8}", show(ours.get(*name)), show(linux.get(*name)));
        let row = json!({ "ours": ours.get(*name), "linux": linux.get(*name), "aim": aim });
        all.insert((*name).to_owned(), row);
    }
    Ok(Value::Object(all))
}

fn show(figure: Option<&f64>) -> String {
    figure.map_or_else(|| "not available".to_owned(), |figure| format!("{figure:.1}"))
}

/// Returns the operations that are measured in instructions.
fn counted(operations: &[Operation]) -> impl Iterator<Item = &Operation> {
    operations.iter().filter(|operation| operation.count != Count::No)
}

/// Divides the operations among guests. Returns the operations of each guest, as their names on the command
/// line.
fn runs(operations: &[Operation]) -> Vec<Vec<&'static str>> {
    let is_alone = |operation: &&Operation| matches!(operation.count, Count::Threads(_));
    let (alone, together): (Vec<_>, Vec<_>) = counted(operations).partition(is_alone);
    let together = together.into_iter().map(|operation| operation.word).collect();
    let alone = alone.into_iter().map(|operation| vec![operation.word]);
    iter::once(together).chain(alone).collect()
}

/// Measures the guest of this kernel.
fn ours(operations: &[Operation]) -> Result<Figures> {
    let (loader, image) = (setup::loader()?, example("core_bench")?);
    measure(operations, |names| {
        let guest = Guest {
            memory: MEMORY.parse().map_err(anyhow::Error::msg)?,
            arguments: names.iter().map(OsString::from).collect(),
            timeout: Some(TIMEOUT),
            extra_options: COUNT_INSTRUCTIONS.map(str::to_owned).to_vec(),
            ..Guest::new(loader.clone(), Some(image.clone()), program::name_of(&image))
        };
        let (end, output) = guest.capture(Input::Bytes(Vec::new()))?;
        if end != End::Exited(0) {
            eprintln!("the guest, measuring {}, ended with {end:?}:", names.join(" "));
        }
        Ok(output)
    })
}

/// Collects the figures of all guests. `run` boots a guest that measures the named operations, and returns
/// its output.
fn measure(operations: &[Operation], run: impl Fn(&[&str]) -> Result<Vec<u8>>) -> Result<Figures> {
    let mut figures = Figures::new();
    for names in runs(operations) {
        let output = run(&names)?;
        let text = String::from_utf8_lossy(&output);
        let printed = parse(&text);
        let ticks = printed.get(TICKS_PER_INSTRUCTION).copied().unwrap_or_default();
        ensure!(
            (ticks - 1.0).abs() < MAX_TICKS_ERROR,
            "an instruction takes {ticks} ticks; the guest printed\n{text}"
        );
        if printed.len() <= names.len() {
            eprintln!("figures are missing; the guest printed\n{text}");
        }
        figures.extend(printed);
    }
    Ok(figures)
}

/// Parses the lines that consist of an operation, a tab and a number.
pub(super) fn parse(text: &str) -> Figures {
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines.filter_map(|(name, number)| Some((name.to_owned(), number.trim().parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::operations::FS;
    use super::{CORE, TICKS_PER_INSTRUCTION, measure, parse, runs};

    #[test]
    fn parse_skips_other_lines() {
        let figures = parse("[ 0.1] Linux\n\u{1b}c\na b\t12.5\r\nfailed: c: no\nd\tnone\ne\t7\n");
        assert_eq!(figures.into_iter().collect::<Vec<_>>(), [("a b".into(), 12.5), ("e".into(), 7.0)]);
    }

    #[test]
    fn measure_collects_each_run_and_checks_its_calibration() {
        let run = |ticks: &'static str| {
            move |names: &[&str]| {
                Ok(format!("{TICKS_PER_INSTRUCTION}\t{ticks}\nfirst is {}\t5\n", names[0]).into_bytes())
            }
        };
        let figures = measure(&CORE, run("1.003")).unwrap();
        assert!(
            figures.contains_key("first is process-id") && figures.contains_key("first is threads-alive")
        );
        assert!(measure(&CORE, run("0.3")).is_err());
        assert!(measure(&CORE, |_| Ok(b"no such luck".to_vec())).is_err());
    }

    #[test]
    fn operations_share_a_guest_unless_one_uses_up_the_memory() {
        let lengths = |operations| runs(operations).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!((lengths(&CORE), lengths(&FS)), (vec![12, 1], vec![13]));
    }
}
