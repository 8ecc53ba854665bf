//! Spans and events.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber, debug, error, info, info_span, instrument, warn};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{DefaultFields, FmtSpan, Format, Full};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use crate::logs::Sink;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[derive(Default)]
struct Lines {
    next: AtomicU64,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl Lines {
    fn push(&self, line: String) {
        LINES.lock().expect("not poisoned").push(line);
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.push(format!("span {id} {}", fields.0));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Fields(String::new());
        values.record(&mut fields);
        self.push(format!("record {}{}", span.into_u64(), fields.0));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.push(fields.0);
    }

    fn enter(&self, span: &Id) {
        self.push(format!("enter {}", span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        self.push(format!("exit {}", span.into_u64()));
    }
}

#[instrument(skip(secret), ret)]
fn divide(one: i32, other: i32, secret: &str) -> Option<i32> {
    debug!("not shown {secret}");
    one.checked_div(other)
}

/// Spans and events, seen by a subscriber of this file.
pub fn tracing() -> crate_uses::Result {
    tracing::subscriber::with_default(Lines::default(), || {
        let span = info_span!("outer", count = 3, later = tracing::field::Empty);
        let _entered = span.enter();
        info!(answer = 42, text = %"shown", "message");
        span.record("later", true);
        divide(7, 2, "secret");
        divide(1, 0, "secret");
    });
    info!("outside");
    println!("{}", LINES.lock().expect("not poisoned").join("\n"));
    Ok(())
}

/// A layer that writes to `sink`, of any subscriber.
fn layer<S>(sink: &Sink) -> tracing_subscriber::fmt::Layer<S, DefaultFields, Format<Full, ()>, Mutex<Sink>> {
    tracing_subscriber::fmt::layer().with_writer(Mutex::new(sink.clone())).without_time().with_ansi(false)
}

/// Formats spans and events, with filters and layers.
pub fn tracing_subscriber() -> crate_uses::Result {
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
