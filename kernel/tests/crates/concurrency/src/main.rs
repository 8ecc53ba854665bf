//! Crates for threads and asynchronous programs.

mod channels;
mod futures;
mod locks;
mod maps;
mod threads;
mod tokio;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[
        ("async-channel", channels::async_channel),
        ("async-trait", futures::async_trait),
        ("crossbeam", threads::crossbeam),
        ("crossbeam-channel", channels::crossbeam_channel),
        ("dashmap", maps::dashmap),
        ("event-listener", locks::event_listener),
        ("flume", channels::flume),
        ("futures", futures::futures),
        ("moka", maps::moka),
        ("num_cpus", threads::num_cpus),
        ("parking_lot", locks::parking_lot),
        ("pin-project", futures::pin_project),
        ("rayon", threads::rayon),
        ("spin", locks::spin),
        ("threadpool", threads::threadpool),
        ("tokio", tokio::tokio),
        ("tokio-stream", tokio::tokio_stream),
        ("tokio-util", tokio::tokio_util),
    ])
}
