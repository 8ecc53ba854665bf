//! Measures threads while other threads compute: messages, echo and HTTP over the loopback interface, new
//! threads, sleeps, locks, writes to files.
//!
//! `mixed_bench BUSY [--seconds S] [NAME...]` starts BUSY computing threads, measures each work for S seconds
//! (2 if it is not given), and prints a line `name<TAB>number` for each figure. If a work uses all the CPU
//! time that it can get, a second line has the share of CPU time that the computing threads get meanwhile,
//! relative to an equal share.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod busy;
mod http;
mod work;

use std::process::ExitCode;
use std::time::Duration;
use std::{env, thread};

use busy::Busy;
use work::{WORKS, Work};

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Default time for each work, in seconds.
const SECONDS: u64 = 2;

/// Arguments of the command line.
#[derive(Debug)]
struct Arguments {
    busy: u32,
    time: Duration,
    names: Vec<String>,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(env::args().skip(1)) else {
        eprintln!("usage: mixed_bench BUSY [--seconds S] [NAME...], where NAME is one of");
        WORKS.iter().for_each(|work| eprintln!("  {}", work.name));
        return ExitCode::from(USAGE_ERROR);
    };
    let alone = rounds_alone(&arguments);
    let is_wanted = |name| arguments.names.is_empty() || arguments.names.iter().any(|wanted| wanted == name);
    for work in WORKS.iter().filter(|work| is_wanted(work.name)) {
        measure(work, &arguments, alone);
    }
    ExitCode::SUCCESS
}

/// Measures a work, and prints its figures.
fn measure(work: &Work, arguments: &Arguments, alone: Option<f64>) {
    let busy = Busy::start(arguments.busy);
    let figures = (work.measure)(arguments.time);
    let rounds = busy.stop();
    let computing = work.threads.zip(alone).map(|(threads, alone)| {
        let equal = f64::from(arguments.busy) / f64::from(arguments.busy + threads);
        rounds / alone / equal
    });
    for (title, figure) in figures {
        println!("{title}\t{figure:.3}");
        if let Some(share) = computing {
            println!("{title}; computing threads\t{share:.3}");
        }
    }
}

/// Returns the rounds per second of the computing threads when no other work runs. Returns `None` if there
/// are no computing threads.
fn rounds_alone(arguments: &Arguments) -> Option<f64> {
    if arguments.busy == 0 {
        return None;
    }
    let busy = Busy::start(arguments.busy);
    thread::sleep(arguments.time);
    Some(busy.stop())
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let busy = words.next()?.parse().ok()?;
    let mut arguments = Arguments { busy, time: Duration::from_secs(SECONDS), names: Vec::new() };
    while let Some(word) = words.next() {
        if word == "--seconds" {
            arguments.time = Duration::from_secs(words.next()?.parse().ok()?);
        } else if WORKS.iter().any(|work| work.name == word) {
            arguments.names.push(word);
        } else {
            return None;
        }
    }
    Some(arguments)
}
