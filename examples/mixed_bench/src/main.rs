//! What threads get beside others that compute: messages, echo over the loopback, requests, new threads, sleeps, a mutex,
//! writes to files.
//!
//! `mixed_bench BUSY [--seconds S] [NAME...]` starts BUSY computing threads, measures each work for S seconds (2 if it is
//! not given), and prints a line `name<TAB>number` for each figure: those of the work, and the rounds that the computing
//! threads made in a second.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod busy;
mod work;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use busy::Busy;
use work::WORKS;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Default time for each work, in seconds.
const SECONDS: u64 = 2;

/// What the command line asks for.
#[derive(Debug)]
struct Arguments {
    busy: usize,
    time: Duration,
    names: Vec<String>,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(env::args().skip(1)) else {
        eprintln!("usage: mixed_bench BUSY [--seconds S] [NAME...], where NAME is one of");
        WORKS.iter().for_each(|(name, _)| eprintln!("  {name}"));
        return ExitCode::from(USAGE_ERROR);
    };
    for (name, work) in &WORKS {
        if arguments.names.is_empty() || arguments.names.iter().any(|wanted| wanted == name) {
            let busy = Busy::start(arguments.busy);
            let figures = work(arguments.time);
            let rounds = busy.stop();
            for (title, figure) in figures {
                println!("{title}\t{figure:.3}");
            }
            if arguments.busy > 0 {
                println!("{name}: rounds of the computing threads a second\t{rounds:.0}");
            }
        }
    }
    ExitCode::SUCCESS
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let busy = words.next()?.parse().ok()?;
    let mut arguments = Arguments { busy, time: Duration::from_secs(SECONDS), names: Vec::new() };
    while let Some(word) = words.next() {
        if word == "--seconds" {
            arguments.time = Duration::from_secs(words.next()?.parse().ok()?);
        } else if WORKS.iter().any(|(name, _)| *name == word) {
            arguments.names.push(word);
        } else {
            return None;
        }
    }
    Some(arguments)
}
