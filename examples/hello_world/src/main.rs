//! Prints a greeting, and a program's environment: arguments, variables, CPUs and clocks.
//!
//! With `--exit-code N` among its arguments it exits with code `N`. The same source runs on Linux.

#![forbid(unsafe_code)]

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod calendar;

use std::env;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::calendar::DateTime;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let start = Instant::now();
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let code = match exit_code(&arguments) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(USAGE_ERROR);
        }
    };

    println!("Hello, world!");
    println!("operating system: {}", env::consts::OS);
    for (number, argument) in (1..).zip(&arguments) {
        println!("argument {number}: {}", argument.display());
    }
    match env::var_os("GREETING") {
        Some(greeting) => println!("GREETING={}", greeting.display()),
        None => println!("GREETING is not set"),
    }
    match thread::available_parallelism() {
        Ok(count) => println!("processors: {count}"),
        Err(error) => println!("processors: unknown ({error})"),
    }
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since_epoch) => println!("time: {}", DateTime::from_unix(since_epoch)),
        Err(_) => println!("time: before 1970"),
    }
    println!("running for: {:?}", start.elapsed());
    ExitCode::from(code)
}

/// Returns the number after `--exit-code`, or 0 without that option.
///
/// # Errors
///
/// Returns a message for the user if no valid exit code follows the option.
fn exit_code(arguments: &[OsString]) -> Result<u8, String> {
    let mut rest = arguments.iter().skip_while(|argument| *argument != "--exit-code");
    if rest.next().is_none() {
        return Ok(0);
    }
    let value = rest.next().map(OsString::as_os_str).unwrap_or_default();
    value
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("--exit-code takes a number from 0 to 255, not \"{}\"", OsStr::display(value)))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::exit_code;

    fn parse(arguments: &[&str]) -> Option<u8> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        exit_code(&arguments).ok()
    }

    #[test]
    fn exit_code_defaults_to_zero() {
        assert_eq!(parse(&[]), Some(0));
        assert_eq!(parse(&["one", "two"]), Some(0));
    }

    #[test]
    fn exit_code_option_is_found_at_any_position() {
        assert_eq!(parse(&["--exit-code", "7"]), Some(7));
        assert_eq!(parse(&["one", "--exit-code", "255", "two"]), Some(255));
    }

    #[test]
    fn invalid_exit_codes_are_rejected() {
        for value in ["256", "-1", "", "seven"] {
            assert_eq!(parse(&["--exit-code", value]), None, "{value}");
        }
        assert_eq!(parse(&["--exit-code"]), None);
    }
}
