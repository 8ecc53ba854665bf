//! Messages for whoever runs a machine, on standard error.

use log::{LevelFilter, Log, Metadata, Record};

#[derive(Debug)]
struct Stderr;

impl Log for Stderr {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        eprintln!("uhyve: {}: {}", record.level().as_str().to_lowercase(), record.args());
    }

    fn flush(&self) {}
}

/// Prints warnings, and what is going on if it is to be `verbose`.
pub(crate) fn init(verbose: bool) {
    log::set_max_level(if verbose { LevelFilter::Debug } else { LevelFilter::Warn });
    // Somebody who has set another one wants that.
    let _: Result<(), log::SetLoggerError> = log::set_logger(&Stderr);
}
