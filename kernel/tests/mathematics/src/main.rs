//! Compares results of std's mathematical functions with exact ones, rounded.
//!
//! `mathematics` prints, for each function, how far its results are off at most, in units of the last place,
//! and exits with code 1 if a result is farther off than [`MAX_UNITS`]. A line of `references.txt` is the
//! name of a method of `f64` or `f32`, the bits of its arguments, and those of the result, rounded to
//! nearest. These were computed with 400 bits (mpmath); results for 0, infinities and NaN are those of C99.
//! Arguments are special values, such as subnormal ones and those beside 1 and beside overflow, and random
//! ones. The same source runs on Linux.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod float;

use std::collections::BTreeMap;
use std::process::ExitCode;

use float::{Float, Reference};

/// Functions, arguments and results.
const REFERENCES: &str = include_str!("references.txt");

/// Units of the last place by which a result may differ from the exact one, rounded.
const MAX_UNITS: u64 = 1;

/// Exit code for a result that is too far off.
const DIFFERENT: u8 = 1;

/// For each function the largest difference, in units of the last place.
type Worst = BTreeMap<String, u64>;

fn main() -> ExitCode {
    let worst = match compare() {
        Ok(worst) => worst,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(DIFFERENT);
        }
    };
    for (function, units) in &worst {
        println!("{function}\t{units}");
    }
    if worst.values().any(|&units| units > MAX_UNITS) {
        return ExitCode::from(DIFFERENT);
    }
    println!("{} results are right", REFERENCES.lines().count());
    ExitCode::SUCCESS
}

/// Calls all functions.
fn compare() -> Result<Worst, String> {
    let mut worst = Worst::new();
    for line in REFERENCES.lines() {
        let (function, units) = units(line).ok_or_else(|| format!("what is this: {line}"))?;
        if units > MAX_UNITS {
            println!("{units} units off: {line}");
        }
        let entry = worst.entry(function).or_default();
        *entry = units.max(*entry);
    }
    Ok(worst)
}

/// The function of a line, with its type, and by how many units it differs.
fn units(line: &str) -> Option<(String, u64)> {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, numbers) = words.split_first()?;
    let is_f32 = numbers.first()?.len() == 8;
    let units = if is_f32 { units_of::<f32>(name, numbers) } else { units_of::<f64>(name, numbers) };
    Some((format!("{name} {}", if is_f32 { "f32" } else { "f64" }), units?))
}

fn units_of<F: Float>(name: &str, numbers: &[&str]) -> Option<u64> {
    let (result, arguments) = numbers.split_last()?;
    let mut parsed = arguments.iter().map(|bits| F::parse(bits));
    let x = parsed.next()??;
    let y = parsed.next().unwrap_or(Some(x))?;
    let expected =
        if *result == "nan" { Reference::NotANumber } else { Reference::Number(F::parse(result)?) };
    Some(F::call(name, x, y)?.units_from(expected))
}

#[cfg(test)]
mod tests {
    use super::{MAX_UNITS, compare};

    #[test]
    fn results_are_those_of_the_table() {
        let worst = compare().unwrap();
        assert_eq!(worst.len(), 40, "{worst:?}");
        for (function, units) in worst {
            assert!(units <= MAX_UNITS, "{function}: {units} units");
        }
    }
}
