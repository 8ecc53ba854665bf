//! Prints the behaviour of every call and option of `std::net`. A *row* is a named behaviour with the
//! function that records it. A row prints one line, or one line for each IP version.
//!
//! `net_calls` runs all rows. `net_calls NAME...` runs the rows whose names equal or begin with one of the
//! given names (`poll`, `poll.full`, `poll.full.v6`). `net_calls --list` prints the names. All traffic is on
//! the loopback interface. `expected.txt` contains Linux's output, and a kernel with the same semantics
//! prints the same: no line contains a port or anything else that differs between runs. `net_calls --check
//! [NAME...]` prints only the differences, and exits with code 1 if there are any.

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
mod epoll;
mod events;
mod multicast;
mod names;
mod nonblocking;
mod options;
mod polling;
mod record;
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

use record::Transcript;
use support::IpVersion;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Time limit of a row: a row that takes longer is reported as hanging.
const ROW_TIMEOUT: Duration = Duration::from_secs(120);

/// Result of a row's function: an error if it could not continue.
type CheckResult = io::Result<()>;

/// A function that records a behaviour.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// The behaviour does not depend on the IP version, or needs both versions.
    Once(fn(&mut Transcript) -> CheckResult),
    /// The behaviour is recorded for each IP version.
    PerVersion(fn(&mut Transcript, IpVersion) -> CheckResult),
}

/// A row: the name of a behaviour, and the function that records it.
type NamedCheck = (&'static str, Check);

/// All rows, by family.
const FAMILIES: [(&str, &[NamedCheck]); 21] = [
    ("addresses", &addresses::ROWS),
    ("backlog", &backlog::ROWS),
    ("bind", &binding::ROWS),
    ("close", &closing::ROWS),
    ("connect", &connecting::ROWS),
    ("datagram", &datagrams::ROWS),
    ("datagram-error", &datagram_errors::ROWS),
    ("descriptor", &descriptors::ROWS),
    ("dual", &dual_stack::ROWS),
    ("epoll", &epoll::ROWS),
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

/// The output on Linux.
const EXPECTED: &str = include_str!("../expected.txt");

fn main() -> ExitCode {
    let mut names: Vec<String> = env::args_os().skip(1).map(|name| name.display().to_string()).collect();
    let rows = rows();
    if names == ["--list"] {
        rows.iter().for_each(|row| println!("{}", row.name));
        return ExitCode::SUCCESS;
    }
    let checks = names.first().is_some_and(|first| first == "--check");
    if checks {
        names.remove(0);
    }
    let chosen: Vec<&OutputLine> = rows.iter().filter(|row| row.is_selected(&names)).collect();
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

/// Prints the rows that differ from Linux, and the number of equal ones.
fn check(rows: &[&OutputLine]) -> ExitCode {
    let mut equal = 0;
    for row in rows {
        let found = row.run();
        match row.expected() {
            Some(expected) if expected == found => equal += 1,
            expected => println!("expected {}\n   found {found}", expected.unwrap_or("nothing")),
        }
    }
    println!("{equal} of {} as on Linux", rows.len());
    ExitCode::from(u8::from(equal != rows.len()))
}

/// One line of the output.
#[derive(Debug)]
struct OutputLine {
    name: String,
    check: Check,
    /// IP version; unused by [`Check::Once`].
    version: IpVersion,
}

/// All lines of the output.
fn rows() -> Vec<OutputLine> {
    let of_family = |&(family, rows): &(&str, &[NamedCheck])| -> Vec<OutputLine> {
        rows.iter().flat_map(|&(name, check)| lines(&format!("{family}.{name}"), check)).collect()
    };
    FAMILIES.iter().flat_map(of_family).collect()
}

/// The lines of one row.
fn lines(name: &str, check: Check) -> Vec<OutputLine> {
    let line = |name, version| OutputLine { name, check, version };
    match check {
        Check::Once(_) => vec![line(name.to_owned(), IpVersion::V4)],
        Check::PerVersion(_) => {
            vec![line(format!("{name}.v4"), IpVersion::V4), line(format!("{name}.v6"), IpVersion::V6)]
        }
    }
}

impl OutputLine {
    fn is_selected(&self, names: &[String]) -> bool {
        let begins = |name: &String| {
            self.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        names.is_empty() || names.iter().any(begins)
    }

    /// The line on Linux.
    fn expected(&self) -> Option<&'static str> {
        EXPECTED.lines().find(|line| line.split_once(": ").is_some_and(|(name, _)| name == self.name))
    }

    /// Runs the row in a thread of its own. If the row hangs, the thread is abandoned.
    fn run(&self) -> String {
        let (check, version) = (self.check, self.version);
        let (done, result) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut record = Transcript::default();
            let outcome = match check {
                Check::Once(check) => check(&mut record),
                Check::PerVersion(check) => check(&mut record, version),
            };
            // Fails if the row has timed out.
            let _: Result<(), _> = done.send(record.finish(outcome));
        });
        let text = match result.recv_timeout(ROW_TIMEOUT) {
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

    use super::{EXPECTED, OutputLine, rows};

    #[test]
    fn names_are_unique() {
        let rows = rows();
        let names: HashSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), rows.len());
    }

    #[test]
    fn name_selects_rows_with_that_prefix() {
        let rows = rows();
        let count = |name: &str| rows.iter().filter(|row| row.is_selected(&[name.to_owned()])).count();
        assert_eq!((count("stream.echo"), count("stream.echo.v6"), count("stream.ech")), (2, 1, 0));
    }

    /// `expected.txt` was recorded on Linux, where it must hold.
    #[test]
    #[cfg(target_os = "linux")]
    fn linux_prints_expected_lines() {
        let rows = rows();
        let differs = |row: &&OutputLine| {
            let found = row.run();
            let differs = row.expected() != Some(&found);
            if differs {
                println!("not at once: {found}");
            }
            differs
        };
        let different: Vec<&OutputLine> = rows.iter().filter(differs).collect();
        // On a busy host, a few rows may exceed their time limits. They are run again, since this does not
        // happen twice.
        assert!(different.len() <= 5, "{different:?}");
        for row in different {
            assert_eq!(Some(row.run().as_str()), row.expected());
        }
        assert_eq!(rows.len(), EXPECTED.lines().count());
    }
}
