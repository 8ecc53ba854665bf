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

/// Installs the logger: warnings and, if `verbose`, all messages down to debug level.
pub(crate) fn init(verbose: bool) {
    log::set_max_level(if verbose { LevelFilter::Debug } else { LevelFilter::Warn });
    // It fails if a program that uses this crate has installed its own logger.
    let _: Result<(), log::SetLoggerError> = log::set_logger(&Stderr);
}
