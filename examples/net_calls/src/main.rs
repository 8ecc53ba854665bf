//! Prints what every call and option of `std::net` does, one line for each behaviour.
//!
//! `net_calls` does all rows, `net_calls NAME...` those whose names are given or begin with one that is given (`poll`,
//! `poll.full`, `poll.full.v6`), and `net_calls --list` prints the names. Nothing leaves the machine. What it prints on
//! Linux is in `expected.txt`, and a kernel with the same meaning prints the same: no line has a port or anything else
//! that differs between runs. `net_calls --check [NAME...]` prints only what is otherwise than there, and ends with
//! exit code 1 if anything is.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod addresses;
mod backlog;
mod binding;
mod closing;
mod connecting;
mod datagram_errors;
mod datagrams;
mod descriptors;
mod dual_stack;
mod events;
mod multicast;
mod names;
mod nonblocking;
mod notes;
mod options;
mod polling;
mod shutdown;
mod streams;
mod support;
mod sys;
mod threads;
mod timeouts;
mod transfers;

use std::io;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;
use std::{env, thread};

use notes::Notes;
use support::Ip;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// A row that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a row's function returns: an error if it could not go on.
type Outcome = io::Result<()>;

/// What notes a behaviour.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// It is the same whatever the addresses are, or needs those of both versions.
    Plain(fn(&mut Notes) -> Outcome),
    /// It is looked at with addresses of each version.
    Versions(fn(&mut Notes, Ip) -> Outcome),
}

/// A behaviour by name.
type Row = (&'static str, Check);

/// All rows, in families.
const FAMILIES: [(&str, &[Row]); 20] = [
    ("addresses", &addresses::ROWS),
    ("backlog", &backlog::ROWS),
    ("bind", &binding::ROWS),
    ("close", &closing::ROWS),
    ("connect", &connecting::ROWS),
    ("datagram", &datagrams::ROWS),
    ("datagram-error", &datagram_errors::ROWS),
    ("descriptor", &descriptors::ROWS),
    ("dual", &dual_stack::ROWS),
    ("events", &events::ROWS),
    ("multicast", &multicast::ROWS),
    ("names", &names::ROWS),
    ("nonblocking", &nonblocking::ROWS),
    ("option", &options::ROWS),
    ("poll", &polling::ROWS),
    ("shutdown", &shutdown::ROWS),
    ("stream", &streams::ROWS),
    ("threads", &threads::ROWS),
    ("timeout", &timeouts::ROWS),
    ("transfer", &transfers::ROWS),
];

/// What is printed on Linux.
const EXPECTED: &str = include_str!("../expected.txt");

fn main() -> ExitCode {
    let mut wanted: Vec<String> = env::args_os().skip(1).map(|name| name.display().to_string()).collect();
    let rows = rows();
    if wanted == ["--list"] {
        rows.iter().for_each(|row| println!("{}", row.name));
        return ExitCode::SUCCESS;
    }
    let checks = wanted.first().is_some_and(|first| first == "--check");
    if checks {
        wanted.remove(0);
    }
    let chosen: Vec<&Line> = rows.iter().filter(|row| row.is_wanted(&wanted)).collect();
    if chosen.is_empty() {
        eprintln!("there is no such row: `net_calls --list` prints their names");
        return ExitCode::from(USAGE_ERROR);
    }
    if checks {
        return check(&chosen);
    }
    chosen.into_iter().for_each(|row| println!("{}", row.run()));
    ExitCode::SUCCESS
}

/// Prints what is otherwise than on Linux, and how much is not.
fn check(rows: &[&Line]) -> ExitCode {
    let mut right = 0;
    for row in rows {
        let found = row.run();
        match row.expected() {
            Some(expected) if expected == found => right += 1,
            expected => println!("expected {}\n   found {found}", expected.unwrap_or("nothing")),
        }
    }
    println!("{right} of {} as on Linux", rows.len());
    ExitCode::from(u8::from(right != rows.len()))
}

/// One line of what is printed.
#[derive(Debug)]
struct Line {
    name: String,
    check: Check,
    /// Not used by a plain check.
    version: Ip,
}

/// All lines.
fn rows() -> Vec<Line> {
    let of_family = |&(family, rows): &(&str, &[Row])| -> Vec<Line> {
        rows.iter().flat_map(|&(name, check)| lines(&format!("{family}.{name}"), check)).collect()
    };
    FAMILIES.iter().flat_map(of_family).collect()
}

/// The lines of one row.
fn lines(name: &str, check: Check) -> Vec<Line> {
    let line = |name, version| Line { name, check, version };
    match check {
        Check::Plain(_) => vec![line(name.to_owned(), Ip::V4)],
        Check::Versions(_) => {
            vec![line(format!("{name}.v4"), Ip::V4), line(format!("{name}.v6"), Ip::V6)]
        }
    }
}

impl Line {
    fn is_wanted(&self, names: &[String]) -> bool {
        let begins = |name: &String| {
            self.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        names.is_empty() || names.iter().any(begins)
    }

    /// What it is on Linux.
    fn expected(&self) -> Option<&'static str> {
        EXPECTED.lines().find(|line| line.split_once(": ").is_some_and(|(name, _)| name == self.name))
    }

    /// Does it in a thread of its own, which is left alone if it hangs.
    fn run(&self) -> String {
        let (check, version) = (self.check, self.version);
        let (done, result) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut notes = Notes::default();
            let outcome = match check {
                Check::Plain(check) => check(&mut notes),
                Check::Versions(check) => check(&mut notes, version),
            };
            // It fails if nobody waits any more.
            let _: Result<(), _> = done.send(notes.finish(outcome));
        });
        let text = match result.recv_timeout(PATIENCE) {
            Ok(text) => text,
            Err(_) if thread.is_finished() => "PANICS".to_owned(),
            Err(_) => "HANGS".to_owned(),
        };
        format!("{}: {text}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{EXPECTED, Line, rows};

    #[test]
    fn names_are_unique() {
        let rows = rows();
        let names: HashSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), rows.len());
    }

    #[test]
    fn a_name_stands_for_what_begins_with_it() {
        let rows = rows();
        let count = |name: &str| rows.iter().filter(|row| row.is_wanted(&[name.to_owned()])).count();
        assert_eq!((count("stream.echo"), count("stream.echo.v6"), count("stream.ech")), (2, 1, 0));
    }

    /// The expectation is Linux's: there it must hold.
    #[test]
    #[cfg(target_os = "linux")]
    fn linux_does_what_is_expected() {
        let rows = rows();
        let is_wrong = |row: &&Line| {
            let found = row.run();
            let is_wrong = row.expected() != Some(&found);
            if is_wrong {
                println!("not at once: {found}");
            }
            is_wrong
        };
        let wrong: Vec<&Line> = rows.iter().filter(is_wrong).collect();
        // On a busy machine a few may be late, but not again.
        assert!(wrong.len() <= 5, "{wrong:?}");
        for row in wrong {
            assert_eq!(Some(row.run().as_str()), row.expected());
        }
        assert_eq!(rows.len(), EXPECTED.lines().count());
    }
}
