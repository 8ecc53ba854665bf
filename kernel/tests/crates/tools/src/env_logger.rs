//! Logs with filters, to a buffer.

use std::io::Write;

use env_logger::{Builder, Target, WriteStyle};

use crate::sink::Sink;

pub fn run() -> crate_uses::Result {
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
    std::thread::spawn(|| log::trace!(target: "loud::inner::x", "from a thread")).join().map_err(|_| "panic")?;
    print!("{}", sink.text());
    println!("{} {}", log::max_level(), log::log_enabled!(log::Level::Debug));
    Ok(())
}
