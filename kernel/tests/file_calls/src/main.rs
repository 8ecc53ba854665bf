//! Prints the behaviour of the calls of `std::fs`, and of the calls of `std::env` that concern files. A *row*
//! is a named behaviour with the function that describes it. Each row prints one line.
//!
//! `file_calls [FOLDER]` works in an empty folder for each line, in FOLDER or else in the temporary folder.
//! `expected.txt` contains Linux's output on a tmpfs, and a kernel with the same semantics prints the same.
//!
//! - `--check` prints only the differences, and exits with code 1 if there are any. On another file system
//!   than a tmpfs, `--check-portable` leaves out the lines that depend on it ([`DEPENDENT`]).
//! - `--stress` uses files in many threads at once, and on Hermit fills the file system.
//! - `--full` fills the file system of FOLDER, which should be small.
//! - `--gone` uses FOLDER until another program removes it.
//! - `--changes` looks at files in FOLDER before and after another program changes them.
//! - `--exit`, `--abort` and `--wait` write to a file in FOLDER that is still open when the program exits,
//!   aborts, or waits until another program has seen it.
//! - `--prepare` fills a folder for `--read-only`, which tries to change it, and exits with code 1 unless
//!   each change fails with `EROFS`.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod changes;
mod collected;
mod contents;
mod directories;
mod environment;
mod gone;
mod links;
mod locks;
mod matrix;
mod metadata;
mod opening;
mod paths;
mod pipes;
mod positional;
mod proc;
mod renaming;
mod show;
mod stress;
mod system;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use collected::End;

/// Output on Linux.
const EXPECTED: &str = include_str!("../expected.txt");

/// Rows whose lines depend on the file system: limits, units of allocation, time of creation, bits that a
/// server may refuse, and files that a server cannot read without privileges.
const DEPENDENT: [&str; 11] = [
    "blocks.of.a.shorter.file",
    "blocks.sparse",
    "created.is.known",
    "created.of.a.directory",
    "created.stays",
    "mode.set.all.bits",
    "mode.set.no.bits",
    "nlink.directory",
    "owner",
    "seek.directory.end",
    "seek.start.too.far",
];

/// A row: the name of a behaviour, and a function that describes it. The current directory of the function is
/// an empty folder.
type Row = (&'static str, fn() -> io::Result<String>);

/// All rows, by subject.
const SUBJECTS: [&[Row]; 12] = [
    opening::ROWS,
    contents::ROWS,
    metadata::ROWS,
    directories::ROWS,
    renaming::ROWS,
    links::ROWS,
    paths::ROWS,
    environment::ROWS,
    positional::ROWS,
    locks::ROWS,
    pipes::ROWS,
    proc::ROWS,
];

/// Runs a row in a folder of its own, and removes the folder.
fn run_in(folder: &Path, name: &str, row: &dyn Fn() -> io::Result<String>) -> io::Result<String> {
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
    let rows = SUBJECTS.into_iter().flatten();
    let mut lines = rows.map(|(name, row)| run_in(folder, name, row)).collect::<io::Result<Vec<_>>>()?;
    matrix::for_each(|name, row| {
        lines.push(run_in(folder, name, row)?);
        Ok(())
    })?;
    Ok(lines)
}

/// Prints the lines that differ from Linux's. Returns true if no lines differ.
fn check(lines: &[String], is_portable: bool) -> bool {
    let expected: Vec<&str> = EXPECTED.lines().collect();
    let is_dependent = |line: &str| line.split_once(": ").is_some_and(|(name, _)| DEPENDENT.contains(&name));
    let mut differences = 0;
    for (line, expected) in lines.iter().zip(&expected).filter(|(line, expected)| line != *expected) {
        if is_portable && is_dependent(expected) {
            continue;
        }
        println!("here:  {line}\nLinux: {expected}");
        differences += 1;
    }
    println!("{} of {} lines as on Linux", lines.len().saturating_sub(differences), expected.len());
    differences == 0 && lines.len() == expected.len()
}

/// Prints the lines, or with `--check` only their differences from Linux's. Returns true if all is as
/// expected.
fn work(mode: Option<&str>, folder: &Path) -> io::Result<bool> {
    if mode == Some("--stress") {
        stress::run(folder)?;
        println!("ok");
        return Ok(true);
    }
    let lines = run(folder)?;
    match mode {
        Some("--check") => Ok(check(&lines, false)),
        Some("--check-portable") => Ok(check(&lines, true)),
        _ => {
            lines.iter().for_each(|line| println!("{line}"));
            Ok(true)
        }
    }
}

/// Works in a new folder in `parent`, and removes it.
fn work_in(parent: &Path, mode: Option<&str>) -> io::Result<bool> {
    let folder = parent.join(format!("file_calls.{}", std::process::id()));
    fs::create_dir(&folder)?;
    let as_expected = work(mode, &folder)?;
    fs::remove_dir(&folder)?;
    Ok(as_expected)
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let has_mode = arguments.first().is_some_and(|first| first.starts_with("--"));
    let mode = has_mode.then(|| arguments.remove(0));
    const MODES: [&str; 11] = [
        "--check",
        "--check-portable",
        "--stress",
        "--full",
        "--gone",
        "--changes",
        "--exit",
        "--abort",
        "--wait",
        "--prepare",
        "--read-only",
    ];
    if mode.as_deref().is_some_and(|mode| !MODES.contains(&mode)) || arguments.len() > 1 {
        eprintln!("usage: file_calls [{}] [FOLDER]", MODES.join("|"));
        return ExitCode::from(2);
    }
    let folder = arguments.first().map_or_else(env::temp_dir, PathBuf::from);
    let result = match mode.as_deref() {
        Some("--full") => stress::full_file_system_keeps_what_it_has(&folder).map(|()| true),
        Some("--gone") => gone::run(&folder),
        Some("--changes") => changes::run(&folder).map(|()| true),
        Some("--exit") => collected::run(&folder, End::Exit).map(|()| true),
        Some("--abort") => collected::run(&folder, End::Abort).map(|()| true),
        Some("--wait") => collected::run(&folder, End::Wait).map(|()| true),
        Some("--prepare") => matrix::prepare_read_only(&folder).map(|()| true),
        Some("--read-only") => matrix::check_read_only(&folder),
        mode => work_in(&folder, mode),
    };
    match result {
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
