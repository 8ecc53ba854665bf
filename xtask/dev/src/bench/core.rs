//! The suite `core`: what `examples/core_bench` measures, in our guest and in a Linux guest on the same machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};

use super::{COUNT_INSTRUCTIONS, example, linux};
use xtask::qemu::{End, Guest, Input};
use xtask::{program, setup};

/// No guest takes longer.
pub(super) const LIMIT: Duration = Duration::from_secs(120);

/// The memory of both guests.
pub(super) const MEMORY: &str = "512M";

/// Every operation, and how few instructions it should take; for the last one: how many threads there should be.
const AIMS: [(&str, u32); 12] = [
    ("process::id", 6),
    ("Instant::now", 40),
    ("yield_now, alone", 30),
    ("yield between two threads, both switches", 160),
    ("condvar round trip between two threads", 600),
    ("mpsc round trip", 900),
    ("Mutex, uncontended", 14),
    ("spawn + join, default stack", 3_000),
    ("spawn + join, 64 KiB stack", 3_000),
    ("Box of 64 bytes, alloc + free", 60),
    ("Vec of 4 KiB, uninitialised", 80),
    ("threads alive at once", 4_000),
];

/// What is measured in one guest: everything that leaves the memory as it was, and what does not.
const RUNS: [&[&str]; 2] = [
    &[
        "process-id",
        "now",
        "yield",
        "yield-two",
        "condvar",
        "mpsc",
        "mutex",
        "spawn",
        "spawn-64k",
        "box",
        "vec",
    ],
    &["threads-alive"],
];

/// What the program calls the ticks of the counter in an instruction.
const TICKS: &str = "ticks of an instruction";

/// How far from 1 they may be: Linux counts its timer interrupts in.
const TICKS_ERROR: f64 = 0.02;

/// Figures by operation.
type Figures = BTreeMap<String, f64>;

/// Measures, prints and returns all figures.
pub(super) fn main() -> Result<Value> {
    let ours = ours()?;
    let linux = linux::Linux::prepare().and_then(|linux| measure(|names| linux.run(names)));
    let linux = linux.unwrap_or_else(|error| {
        eprintln!("the Linux guest is not available: {error:#}");
        Figures::new()
    });
    println!("{:<44} {:>13} {:>13} {:>8}", "operation (instructions)", "ours", "Linux guest", "aim");
    for (name, aim) in AIMS {
        println!("{name:<44} {:>13} {:>13} {aim:>8}", show(ours.get(name)), show(linux.get(name)));
    }
    let row = |(name, aim): (&str, u32)| {
        (name.to_owned(), json!({ "ours": ours.get(name), "linux": linux.get(name), "aim": aim }))
    };
    Ok(Value::Object(AIMS.into_iter().map(row).collect::<Map<_, _>>()))
}

fn show(figure: Option<&f64>) -> String {
    figure.map_or_else(|| "not available".to_owned(), |figure| format!("{figure:.1}"))
}

/// The figures of our guest.
fn ours() -> Result<Figures> {
    let (loader, image) = (setup::loader()?, example("core_bench")?);
    measure(|names| {
        let guest = Guest {
            memory: MEMORY.parse().map_err(anyhow::Error::msg)?,
            arguments: names.iter().map(OsString::from).collect(),
            timeout: Some(LIMIT),
            more: COUNT_INSTRUCTIONS.map(str::to_owned).to_vec(),
            ..Guest::new(loader.clone(), Some(image.clone()), program::name_of(&image))
        };
        let (end, output) = guest.capture(Input::Bytes(Vec::new()))?;
        if end != End::Exited(0) {
            eprintln!("our guest, measuring {}, ended with {end:?}:", names.join(" "));
        }
        Ok(output)
    })
}

/// Collects what a guest prints that is told the operations' names.
fn measure(run: impl Fn(&[&str]) -> Result<Vec<u8>>) -> Result<Figures> {
    let mut figures = Figures::new();
    for names in RUNS {
        let output = run(names)?;
        let text = String::from_utf8_lossy(&output);
        let printed = parse(&text);
        let ticks = printed.get(TICKS).copied().unwrap_or_default();
        ensure!(
            (ticks - 1.0).abs() < TICKS_ERROR,
            "an instruction takes {ticks} ticks; the guest printed\n{text}"
        );
        if printed.len() <= names.len() {
            eprintln!("there are figures missing; the guest printed\n{text}");
        }
        figures.extend(printed);
    }
    Ok(figures)
}

/// The lines that are an operation, a tabulator and a number.
pub(super) fn parse(text: &str) -> Figures {
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines.filter_map(|(name, number)| Some((name.to_owned(), number.trim().parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::{AIMS, RUNS, TICKS, measure, parse};

    #[test]
    fn only_figures_are_read() {
        let figures = parse("[ 0.1] Linux\n\u{1b}c\na b\t12.5\r\nfailed: c: no\nd\tnone\ne\t7\n");
        assert_eq!(figures.into_iter().collect::<Vec<_>>(), [("a b".into(), 12.5), ("e".into(), 7.0)]);
    }

    #[test]
    fn every_run_is_collected_and_its_counter_checked() {
        let run = |ticks: &'static str| {
            move |names: &[&str]| Ok(format!("{TICKS}\t{ticks}\nfirst is {}\t5\n", names[0]).into_bytes())
        };
        let figures = measure(run("1.003")).unwrap();
        assert!(
            figures.contains_key("first is process-id") && figures.contains_key("first is threads-alive")
        );
        assert!(measure(run("0.3")).is_err());
        assert!(measure(|_| Ok(b"no such luck".to_vec())).is_err());
    }

    #[test]
    fn there_is_an_aim_for_everything() {
        assert_eq!(RUNS.concat().len(), AIMS.len());
    }
}
