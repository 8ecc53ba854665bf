//! Fails, or checks itself, in the way that its argument names.
//!
//! Faults show how the system handles a defective program: each must end with a message and a non-zero exit
//! code. Checks verify guarantees of std, and end with `ok`. The same source runs on Linux.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod checks;
mod endings;
mod faults;
mod large_blocks;
mod memory;
mod threads;

use std::env;
use std::process::{self, ExitCode};

/// Result of an action: the last line to print, or an error message.
type ActionResult = Result<&'static str, String>;

/// An action.
type Action = fn() -> ActionResult;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// All actions without a further argument, by name.
const ACTIONS: &[(&str, Action)] = &[
    ("abort", faults::abort),
    ("allocate", faults::allocate),
    ("divide", faults::divide),
    ("entropy", checks::entropy),
    ("environment", checks::environment),
    ("execute-data", faults::execute_data),
    ("exit-destructor", endings::exit_runs_destructors),
    ("exit-twice", endings::destructor_exits),
    ("float", checks::float),
    ("fragmented", large_blocks::fragmented),
    ("grow-without-end", large_blocks::grow_without_end),
    ("growing", large_blocks::growing),
    ("illegal", faults::illegal),
    ("io-errors", checks::io_errors),
    ("memory", memory::memory),
    ("nowhere-stack", faults::nowhere_stack),
    ("null", faults::null),
    ("null-read", faults::null_read),
    ("panic", faults::panic),
    ("preempted-nowhere", threads::preempted_nowhere),
    ("recursion", faults::recursion),
    ("stack-hole", faults::stack_hole),
    ("step", faults::step),
    ("thread-long-name", threads::long_name),
    ("thread-null", threads::null),
    ("thread-null-busy", threads::null_busy),
    ("thread-panic", threads::panic),
    ("thread-recursion", threads::recursion),
    ("time", checks::time),
    ("tls", checks::tls),
    ("try-allocate", faults::try_allocate),
    ("two-faults", threads::two_faults),
    ("write-code", faults::write_code),
    ("write-rodata", faults::write_rodata),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args_os().skip(1).map(|name| name.display().to_string()).collect();
    let action = match arguments.as_slice() {
        [name, code] if name == "exit" => match code.parse() {
            Ok(code) => process::exit(code),
            Err(_) => None,
        },
        [name] => ACTIONS.iter().find(|(known, _)| known == name),
        _ => None,
    };
    let Some((_, action)) = action else {
        print_usage();
        return ExitCode::from(USAGE_ERROR);
    };
    match action() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("failed: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the names of all actions to standard error.
fn print_usage() {
    eprintln!("usage: faults NAME, where NAME is one of");
    eprintln!("  exit N");
    for (name, _) in ACTIONS {
        eprintln!("  {name}");
    }
}

#[cfg(test)]
mod tests {
    use super::{ACTIONS, checks, memory};

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(ACTIONS.is_sorted_by(|(one, _), (other, _)| one < other));
    }

    #[test]
    fn checks_pass() {
        let checks =
            [checks::entropy, checks::float, checks::io_errors, checks::time, checks::tls, memory::memory];
        for check in checks {
            assert_eq!(check(), Ok("ok"));
        }
    }
}
