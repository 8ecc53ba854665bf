//! Compares the behaviour of panics with that on Linux. `unwinding` prints a row, which is a line of text,
//! for each case, and compares all rows with those of Linux.
//!
//! `unwinding main` panics in the main thread. `unwinding ABORT` ends in the way that the argument names. The
//! same source runs on Linux, where a test checks that the expected rows are still right.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod caught;
mod endings;
mod threads;
mod values;

use std::env;
use std::panic;
use std::process::ExitCode;

/// Exit code for a difference.
const DIFFERENT: u8 = 1;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Rows as Linux has them.
const LINUX: &str = include_str!("linux.txt");

fn main() -> ExitCode {
    match env::args().nth(1) {
        None => compare(),
        Some(name) => endings::end(&name).unwrap_or_else(|| {
            eprintln!("usage: unwinding [main | destructor | foreign | hook | thread]");
            ExitCode::from(USAGE_ERROR)
        }),
    }
}

/// Prints all rows, and those that differ.
fn compare() -> ExitCode {
    let rows = rows();
    let mut expected = LINUX.lines();
    let mut is_same = true;
    for row in &rows {
        println!("{row}");
        let linux = expected.next().unwrap_or("nothing");
        if row != linux {
            println!("    on Linux: {linux}");
            is_same = false;
        }
    }
    if !is_same || expected.next().is_some() {
        return ExitCode::from(DIFFERENT);
    }
    println!("{} rows as on Linux", rows.len());
    ExitCode::SUCCESS
}

/// The rows of all cases. Panics print nothing meanwhile.
fn rows() -> Vec<String> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let rows = [caught::rows(), values::rows(), threads::rows()].concat();
    panic::set_hook(hook);
    rows
}

#[cfg(test)]
mod tests {
    use super::{LINUX, rows};

    #[test]
    fn rows_are_those_of_linux() {
        assert_eq!(rows(), LINUX.lines().collect::<Vec<_>>());
    }
}
