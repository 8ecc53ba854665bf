//! Messages to the user, on standard error.

use std::fmt;
use std::io::{self, Write};

use log::{LevelFilter, Log, Metadata, Record};

#[derive(Debug)]
struct Stderr;

impl Log for Stderr {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        say(format_args!("{}: {}", record.level().as_str().to_lowercase(), record.args()));
    }

    fn flush(&self) {}
}

/// Prints a message. Errors are ignored: a reader that has closed standard error must not end the guest.
pub(crate) fn say(message: fmt::Arguments<'_>) {
    let _: io::Result<()> = writeln!(io::stderr(), "uhyve: {message}");
}

/// Prints a message that is no error, unless the user wants errors only.
pub(crate) fn note(message: fmt::Arguments<'_>) {
    if log::max_level() > LevelFilter::Error {
        say(message);
    }
}

/// Installs the logger: warnings; if `quiet`, none; if `verbose`, all messages down to debug level.
pub(crate) fn init(verbose: bool, quiet: bool) {
    log::set_max_level(match (verbose, quiet) {
        (true, _) => LevelFilter::Debug,
        (false, true) => LevelFilter::Error,
        (false, false) => LevelFilter::Warn,
    });
    // It fails if a program that uses this crate has installed its own logger.
    let _: Result<(), log::SetLoggerError> = log::set_logger(&Stderr);
}
