//! A logger of this file, behind the macros of all crates.

use std::sync::Mutex;

use log::{Level, LevelFilter, Log, Metadata, Record};

struct Lines(Mutex<Vec<String>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() != "ignored"
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{} {} {}", record.level(), record.target(), record.args());
            self.0.lock().expect("not poisoned").push(line);
        }
    }

    fn flush(&self) {}
}

pub fn run() -> crate_uses::Result {
    log::set_logger(&LINES)?;
    log::set_max_level(LevelFilter::Info);
    log::error!("one {}", 1);
    log::info!(target: "two", "{value}", value = 2);
    log::info!(target: "ignored", "three");
    log::debug!("four");
    log::log!(Level::Warn, "five");
    log::logger().log(&Record::builder().args(format_args!("six")).target("built").level(Level::Trace).build());
    println!("{:#?}", LINES.0.lock().expect("not poisoned"));
    println!("{:?} {}", "warn".parse::<LevelFilter>()?, log::set_logger(&LINES).is_err());
    Ok(())
}
