//! Plain loops over functions of std that programs use often, for a comparison of a guest with Linux.
//!
//! `plain_bench [--small] [NAME...]` runs each loop in three rounds and prints a line
//! `title<TAB>milliseconds`: the time of the shortest round. `--list` prints a line `name<TAB>title` for each
//! loop instead.
//!
//! Each round returns a checksum of its results, which is compared with the recorded one. So the compiler
//! cannot remove a loop, and a wrong result is an error: the program exits with code 1 if a checksum differs.
//!
//! With `--small`, the program runs one round with a 64th of the work, to test that all loops work. The times
//! are then no measurement.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod collections;
mod digest;
mod mathematics;
mod memory;
mod panics;
mod random;
mod rounds;
mod sorting;
mod synchronization;
mod text;

use std::env;
use std::process::ExitCode;

use rounds::{Loop, Rounds};

/// Exit code for a wrong checksum.
const WRONG: u8 = 1;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// The loops by family.
const FAMILIES: [&[Loop]; 8] = [
    &collections::LOOPS,
    &sorting::LOOPS,
    &text::LOOPS,
    &memory::LOOPS,
    &synchronization::LOOPS,
    &mathematics::LOOPS,
    &panics::LOOPS,
    &digest::LOOPS,
];

/// Request of the command line.
#[derive(Debug)]
enum Request {
    List,
    Run(Rounds, Vec<String>),
}

fn main() -> ExitCode {
    match parse(env::args().skip(1)) {
        Some(Request::List) => loops().for_each(|it| println!("{}\t{}", it.name, it.title)),
        Some(Request::Run(rounds, names)) => return run(&rounds, &names),
        None => {
            eprintln!("usage: plain_bench --list | [--small] [NAME...], where NAME is a loop of --list");
            return ExitCode::from(USAGE_ERROR);
        }
    }
    ExitCode::SUCCESS
}

fn loops() -> impl Iterator<Item = &'static Loop> {
    FAMILIES.into_iter().flatten()
}

/// Runs the loops with these names, or all loops if there are no names.
fn run(rounds: &Rounds, names: &[String]) -> ExitCode {
    let mut is_wrong = false;
    for it in loops().filter(|it| names.is_empty() || names.iter().any(|name| name == it.name)) {
        match it.measure(rounds) {
            Ok(time) => println!("{}\t{:.4}", it.title, time.as_secs_f64() * 1e3),
            Err(wrong) => {
                eprintln!("{}: {wrong}", it.title);
                is_wrong = true;
            }
        }
    }
    if is_wrong {
        return ExitCode::from(WRONG);
    }
    println!("all checksums are right");
    ExitCode::SUCCESS
}

fn parse(words: impl Iterator<Item = String>) -> Option<Request> {
    let words: Vec<_> = words.collect();
    if words == ["--list"] {
        return Some(Request::List);
    }
    let is_small = words.first().is_some_and(|word| word == "--small");
    let names = words.get(usize::from(is_small)..)?.to_vec();
    let is_loop = |name: &String| loops().any(|it| it.name == name);
    let rounds = if is_small { Rounds::SMALL } else { Rounds::FULL };
    names.iter().all(is_loop).then_some(Request::Run(rounds, names))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Request, loops, parse};
    use crate::rounds::Rounds;

    #[test]
    fn small_loops_have_the_recorded_checksums() {
        for it in loops() {
            assert_eq!(it.measure(&Rounds::SMALL).map(drop), Ok(()), "{}", it.title);
        }
    }

    #[test]
    fn names_and_titles_are_unique() {
        assert_eq!(loops().map(|it| it.name).collect::<BTreeSet<_>>().len(), loops().count());
        assert_eq!(loops().map(|it| it.title).collect::<BTreeSet<_>>().len(), loops().count());
    }

    #[test]
    fn unknown_loop_is_rejected() {
        let parse = |words: &[&str]| parse(words.iter().map(|&word| word.to_owned()));
        assert!(parse(&["no-loop"]).is_none());
        assert!(matches!(parse(&["--list"]), Some(Request::List)));
        assert!(matches!(parse(&["--small", "push"]), Some(Request::Run(Rounds::SMALL, _))));
        assert!(matches!(parse(&[]), Some(Request::Run(Rounds::FULL, _))));
    }
}
