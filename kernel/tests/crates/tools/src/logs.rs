//! Loggers.

use std::fs;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use env_logger::{Builder, Target, WriteStyle};
use log::{Level, LevelFilter, Log, Metadata, Record};
use log4rs::Config;
use log4rs::append::file::FileAppender;
use log4rs::config::{Appender, Logger, Root};
use log4rs::encode::pattern::PatternEncoder;

use crate::folder;

/// A writer whose bytes can be read later.
#[derive(Clone, Default)]
pub struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    pub fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Logs with filters, to a buffer.
pub fn env_logger() -> crate_uses::Result {
    let sink = Sink::default();
    Builder::new()
        .parse_filters("info,quiet=error,loud::inner=trace")
        .target(Target::Pipe(Box::new(sink.clone())))
        .write_style(WriteStyle::Never)
        .format(|out, record| writeln!(out, "[{} {}] {}", record.level(), record.target(), record.args()))
        .try_init()?;
    log::info!("started with {}", 5);
    log::debug!("not shown");
    log::warn!(target: "quiet", "not shown");
    log::error!(target: "quiet", "an error");
    std::thread::spawn(|| log::trace!(target: "loud::inner::x", "from a thread"))
        .join()
        .map_err(|_| "panic")?;
    print!("{}", sink.text());
    println!("{} {}", log::max_level(), log::log_enabled!(log::Level::Debug));
    Ok(())
}

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

/// A logger of this file, behind the macros of all crates.
pub fn log() -> crate_uses::Result {
    log::set_logger(&LINES)?;
    log::set_max_level(LevelFilter::Info);
    log::error!("one {}", 1);
    log::info!(target: "two", "{value}", value = 2);
    log::info!(target: "ignored", "three");
    log::debug!("four");
    log::log!(Level::Warn, "five");
    log::logger()
        .log(&Record::builder().args(format_args!("six")).target("built").level(Level::Trace).build());
    println!("{:#?}", LINES.0.lock().expect("not poisoned"));
    println!("{:?} {}", "warn".parse::<LevelFilter>()?, log::set_logger(&LINES).is_err());
    Ok(())
}

/// Logs to a file, with a filter for each target.
pub fn log4rs() -> crate_uses::Result {
    let folder = folder("log4rs")?;
    let file = folder.join("logs/out.log");
    let encoder = PatternEncoder::new("{l:<5} {t} {m}{n}");
    let appender = FileAppender::builder().encoder(Box::new(encoder)).build(&file)?;
    let config = Config::builder()
        .appender(Appender::builder().build("file", Box::new(appender)))
        .logger(Logger::builder().build("quiet", LevelFilter::Error))
        .build(Root::builder().appender("file").build(LevelFilter::Info))?;
    log4rs::init_config(config)?;
    log::info!(target: "main", "one");
    log::warn!(target: "quiet::inner", "two");
    let threads: Vec<_> = (0..4)
        .map(|_| std::thread::spawn(|| (0..50).for_each(|_| log::error!(target: "quiet", "three"))))
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "panic")?;
    }
    let text = fs::read_to_string(&file)?;
    println!("{} {:?}", text.lines().count(), text.lines().take(2).collect::<Vec<_>>());
    fs::remove_dir_all(folder)?;
    Ok(())
}
