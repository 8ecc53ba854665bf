//! Prints what the calls of `std::fs`, and those of `std::env` that concern files, do: one line for each behaviour.
//!
//! `file_calls [FOLDER]` works in an empty folder for each line, in FOLDER or else in the temporary folder. `expected.txt`
//! contains Linux's output on a tmpfs, and a kernel with the same semantics prints the same. `file_calls --check [FOLDER]`
//! prints only the differences, and exits with code 1 if there are any. `file_calls --stress [FOLDER]` uses files in many
//! threads at once, and on Hermit fills the file system.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod contents;
mod directories;
mod environment;
mod links;
mod metadata;
mod opening;
mod paths;
mod renaming;
mod show;
mod stress;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

/// Output on Linux.
const EXPECTED: &str = include_str!("../expected.txt");

/// A behaviour: a name, and a function that describes it. The current directory is an empty folder.
type Row = (&'static str, fn() -> io::Result<String>);

/// All rows, by subject.
const SUBJECTS: [&[Row]; 8] = [
    opening::ROWS,
    contents::ROWS,
    metadata::ROWS,
    directories::ROWS,
    renaming::ROWS,
    links::ROWS,
    paths::ROWS,
    environment::ROWS,
];

/// Runs a row in a folder of its own, and removes the folder.
fn run_in(folder: &Path, (name, row): Row) -> io::Result<String> {
    let folder = folder.join(name);
    fs::create_dir(&folder)?;
    env::set_current_dir(&folder)?;
    let line =
        format!("{name}: {}", row().unwrap_or_else(|error| format!("failed: {}", show::error(&error))));
    env::set_current_dir("/")?;
    fs::remove_dir_all(&folder)?;
    Ok(line)
}

fn run(folder: &Path) -> io::Result<Vec<String>> {
    SUBJECTS.into_iter().flatten().map(|row| run_in(folder, *row)).collect()
}

/// Prints the lines that differ from Linux's; returns whether there are none.
fn check(lines: &[String]) -> bool {
    let expected: Vec<&str> = EXPECTED.lines().collect();
    let mut differences = 0;
    for (line, expected) in lines.iter().zip(&expected).filter(|(line, expected)| line != *expected) {
        println!("here:  {line}\nLinux: {expected}");
        differences += 1;
    }
    println!("{} of {} lines as on Linux", lines.len().saturating_sub(differences), expected.len());
    differences == 0 && lines.len() == expected.len()
}

/// Prints the lines, or with `--check` their differences from Linux's; returns whether all is as expected.
fn work(mode: Option<&str>, folder: &Path) -> io::Result<bool> {
    if mode == Some("--stress") {
        stress::run(folder)?;
        println!("ok");
        return Ok(true);
    }
    let lines = run(folder)?;
    if mode == Some("--check") {
        return Ok(check(&lines));
    }
    lines.iter().for_each(|line| println!("{line}"));
    Ok(true)
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let has_mode = arguments.first().is_some_and(|first| first.starts_with("--"));
    let mode = has_mode.then(|| arguments.remove(0));
    if !matches!(mode.as_deref(), None | Some("--check" | "--stress")) || arguments.len() > 1 {
        eprintln!("usage: file_calls [--check|--stress] [FOLDER]");
        return ExitCode::from(2);
    }
    let parent = arguments.first().map_or_else(env::temp_dir, PathBuf::from);
    let folder = parent.join(format!("file_calls.{}", std::process::id()));
    let result = fs::create_dir(&folder).and_then(|()| work(mode.as_deref(), &folder));
    match result.and_then(|as_expected| fs::remove_dir(&folder).map(|()| as_expected)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EXPECTED, run};

    /// The only test, since rows change the current directory.
    #[test]
    fn expected_lines_are_those_of_linux() {
        // The reference is a tmpfs.
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
        let lines = run(folder.path()).unwrap();
        assert_eq!(lines.join("\n"), EXPECTED.trim_end());
    }
}
