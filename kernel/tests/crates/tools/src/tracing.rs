//! Spans and events, seen by a subscriber of this file.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber, debug, info, info_span, instrument};

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

pub fn run() -> crate_uses::Result {
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
