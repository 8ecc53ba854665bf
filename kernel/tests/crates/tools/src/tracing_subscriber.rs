//! Formats spans and events, with filters and layers.

use std::sync::Mutex;

use tracing::{Level, debug, error, info, info_span, warn};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{DefaultFields, FmtSpan, Format, Full};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::sink::Sink;

/// A layer that writes to `sink`, of any subscriber.
fn layer<S>(sink: &Sink) -> fmt::Layer<S, DefaultFields, Format<Full, ()>, Mutex<Sink>> {
    fmt::layer().with_writer(Mutex::new(sink.clone())).without_time().with_ansi(false)
}

pub fn run() -> crate_uses::Result {
    let (all, errors) = (Sink::default(), Sink::default());
    let targets = Targets::new().with_default(Level::INFO).with_target("noisy", LevelFilter::OFF);
    let (filter, handle) = reload::Layer::new(targets);
    Registry::default()
        .with(layer(&all).with_span_events(FmtSpan::NEW).with_filter(filter))
        .with(layer(&errors).compact().with_target(false).with_filter(LevelFilter::ERROR))
        .try_init()?;
    let span = info_span!("request", method = "GET", status = tracing::field::Empty);
    span.in_scope(|| {
        info!(bytes = 17, "answered");
        span.record("status", 200);
        warn!(target: "noisy", "not shown");
        debug!("not shown");
        std::thread::spawn(|| error!(code = ?Some(5), "in a thread")).join()
    })
    .map_err(|_| "panic")?;
    handle.modify(|targets| *targets = Targets::new().with_default(Level::DEBUG))?;
    debug!("shown now");
    print!("{}--\n{}", all.text(), errors.text());
    Ok(())
}
