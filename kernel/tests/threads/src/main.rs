//! Checks std's guarantees for threads: scheduling, blocking, termination, locks, channels and thread-local
//! values.
//!
//! `threads NAME` prints `ok`, or exits with code 1 and a message. A check is an assertion: the program exits
//! as soon as one fails, in whatever thread. The same source runs on Linux.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod arguments;
mod channels;
mod clocks;
mod cpus;
mod exhaustion;
mod life;
mod local;
mod locks;
mod memory;
mod once;
mod parking;
mod stack;
mod stress;
mod support;
mod waiting;
mod wake_ups;

use std::env;
use std::panic;
use std::process::{self, ExitCode};

use arguments::Settings;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// A check.
type Check = fn(&Settings);

/// All checks, by name.
const CHECKS: [(&str, Check); 28] = [
    ("allocate", memory::allocate),
    ("barrier", waiting::barrier),
    ("busy", cpus::busy),
    ("clock-step", clocks::clock_step),
    ("clocks", clocks::clocks),
    ("condvar", waiting::condvar),
    ("exhaust", exhaustion::exhaust),
    ("exhaust-threads", exhaustion::exhaust_threads),
    ("many", life::many),
    ("mpsc", channels::mpsc),
    ("mutex", locks::mutex),
    ("names", life::names),
    ("once", once::once),
    ("parallel", cpus::parallel),
    ("park", parking::park),
    ("rwlock", locks::rwlock),
    ("scoped", life::scoped),
    ("sleep", clocks::sleep),
    ("sleep-together", clocks::sleep_together),
    ("spawn-join", life::spawn_join),
    ("spike", memory::spike),
    ("stack", stack::stack),
    ("stress", stress::stress),
    ("sync-channel", channels::sync_channel),
    ("tick", clocks::tick),
    ("tls", local::tls),
    ("touch", memory::touch),
    ("wake-ups", wake_ups::wake_ups),
];

fn main() -> ExitCode {
    let arguments: Vec<String> =
        env::args_os().skip(1).map(|argument| argument.display().to_string()).collect();
    let (name, settings) = match arguments::parse(&arguments) {
        Ok(parsed) => parsed,
        Err(message) => return usage(&message),
    };
    let Some((_, check)) = CHECKS.iter().find(|(known, _)| *known == name) else {
        return usage(&format!("there is no check `{name}`"));
    };
    panic::set_hook(Box::new(|failure| {
        eprintln!("failed: {failure}");
        process::exit(1);
    }));
    cpus::expect(&settings);
    check(&settings);
    println!("ok");
    ExitCode::SUCCESS
}

/// Prints the error and the names of all checks to standard error.
fn usage(message: &str) -> ExitCode {
    eprintln!("{message}");
    eprintln!("usage: threads NAME [NUMBER] [--cpus-expected N] [--seconds S], where NAME is one of");
    for (name, _) in CHECKS {
        eprintln!("  {name}");
    }
    ExitCode::from(USAGE_ERROR)
}

#[cfg(test)]
mod tests {
    use super::arguments::Settings;
    use super::{CHECKS, stress};

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(CHECKS.is_sorted_by(|(one, _), (other, _)| one < other));
    }

    #[test]
    fn quick_checks_pass() {
        for (name, check) in CHECKS {
            // These need memory or CPUs that other programs on the host may use, a host's clock that is set,
            // or input.
            let needs_host = [
                "busy",
                "clock-step",
                "exhaust",
                "exhaust-threads",
                "many",
                "parallel",
                "spike",
                "stress",
                "touch",
            ];
            if !needs_host.contains(&name) {
                println!("{name}");
                check(&Settings::default());
            }
        }
    }

    #[test]
    fn checks_pass_concurrently() {
        stress::stress(&Settings { seconds: Some(1), ..Settings::default() });
    }
}
