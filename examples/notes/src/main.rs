//! Stores notes by key, in a log-structured store that only uses std's files. The store survives a crash at
//! any time.
//!
//! `notes COMMAND [KEY [TEXT]]` runs one command. `notes` without arguments runs the commands in standard
//! input, one per line:
//!
//! | command | what it does |
//! | --- | --- |
//! | `put KEY TEXT` | sets a note |
//! | `get KEY` | prints its text |
//! | `remove KEY` | removes it |
//! | `list [PREFIX]` | prints all keys, or those that begin with the prefix |
//! | `compact` | replaces the log by one with the present notes alone |
//!
//! The notes are in the folder that the variable `NOTES_FOLDER` names, by default `/data`. It is a folder of
//! the host if it is mounted (`--mount`), or else in the guest's memory. The exit code is 1 if a command has
//! failed, and 2 for a command that does not exist.

#![forbid(unsafe_code)]

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod record;
mod store;

use std::path::Path;
use std::process::ExitCode;
use std::{env, io};

use store::Store;

/// Folder of the notes, if `NOTES_FOLDER` is not set.
const FOLDER: &str = "/data";

/// Exit code for a command that does not exist.
const USAGE_ERROR: u8 = 2;

/// Reason why a command has failed.
#[derive(Debug)]
enum CommandError {
    /// There is no such command, or a word is missing.
    Usage,
    /// There is no such note.
    NotFound,
    Io(io::Error),
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args_os().skip(1).map(|word| word.display().to_string()).collect();
    let folder = env::var_os("NOTES_FOLDER").unwrap_or_else(|| FOLDER.into());
    let mut store = match open(Path::new(&folder)) {
        Ok(store) => store,
        Err(error) => {
            eprintln!("cannot open the notes in {}: {error}", Path::new(&folder).display());
            return ExitCode::FAILURE;
        }
    };
    let codes = if words.is_empty() {
        io::stdin().lines().map(|line| line.map_or(1, |line| report(run(&mut store, &line), &line))).max()
    } else {
        let line = words.join(" ");
        Some(report(run(&mut store, &line), &line))
    };
    ExitCode::from(codes.unwrap_or(0))
}

fn open(folder: &Path) -> io::Result<Store> {
    let (store, damaged) = Store::open(folder)?;
    if damaged > 0 {
        eprintln!("the last {damaged} bytes were no complete note and are in `notes.damaged` now");
    }
    eprintln!("{} notes", store.len());
    Ok(store)
}

/// Runs a command.
fn run(store: &mut Store, line: &str) -> Result<(), CommandError> {
    let mut words = line.trim().splitn(3, ' ');
    match (words.next().unwrap_or_default(), words.next(), words.next()) {
        ("", None, None) => {}
        ("put", Some(key), Some(text)) => store.put(key, text)?,
        ("get", Some(key), None) => println!("{}", store.get(key)?.ok_or(CommandError::NotFound)?),
        ("remove", Some(key), None) if store.remove(key)? => {}
        ("remove", Some(_), None) => return Err(CommandError::NotFound),
        ("list", prefix, None) => store.keys(prefix.unwrap_or_default()).for_each(|key| println!("{key}")),
        ("compact", None, None) => println!("{} bytes less", store.compact()?),
        _ => return Err(CommandError::Usage),
    }
    Ok(())
}

/// Prints the reason if a command has failed. Returns the exit code.
fn report(outcome: Result<(), CommandError>, line: &str) -> u8 {
    match outcome {
        Ok(()) => return 0,
        Err(CommandError::NotFound) => eprintln!("{line}: there is no such note"),
        Err(CommandError::Io(error)) => eprintln!("{line}: {error}"),
        Err(CommandError::Usage) => {
            eprintln!("{line}: the commands are put KEY TEXT, get KEY, remove KEY, list [PREFIX], compact");
            return USAGE_ERROR;
        }
    }
    1
}
