//! Logs to a file, with a filter for each target.

use std::fs;

use log::LevelFilter;
use log4rs::Config;
use log4rs::append::file::FileAppender;
use log4rs::config::{Appender, Logger, Root};
use log4rs::encode::pattern::PatternEncoder;

use crate::settings::folder;

pub fn run() -> crate_uses::Result {
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
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| (0..50).for_each(|_| log::error!(target: "quiet", "three")))).collect();
    for thread in threads {
        thread.join().map_err(|_| "panic")?;
    }
    let text = fs::read_to_string(&file)?;
    println!("{} {:?}", text.lines().count(), text.lines().take(2).collect::<Vec<_>>());
    fs::remove_dir_all(folder)?;
    Ok(())
}
