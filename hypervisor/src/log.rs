//! Messages for whoever runs a machine, on standard error.

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

/// Says something, unless nobody listens: that must end neither this process nor its guest.
pub(crate) fn say(message: fmt::Arguments<'_>) {
    let _: io::Result<()> = writeln!(io::stderr(), "uhyve: {message}");
}

/// Prints warnings, and what is going on if it is to be `verbose`.
pub(crate) fn init(verbose: bool) {
    log::set_max_level(if verbose { LevelFilter::Debug } else { LevelFilter::Warn });
    // Somebody who has set another one wants that.
    let _: Result<(), log::SetLoggerError> = log::set_logger(&Stderr);
}
