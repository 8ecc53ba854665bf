//! Waiting with a timeout, and notifications. Sockets are waited for by async-io.

use polling::{Events, Poller};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub fn run() -> crate_uses::Result {
    let poller = Arc::new(Poller::new()?);
    let mut events = Events::new();
    let start = Instant::now();
    let timeout = Duration::from_millis(20);
    println!("{} {}", poller.wait(&mut events, Some(timeout))?, start.elapsed() >= timeout);
    for _ in 0..10 {
        poller.notify()?;
        poller.notify()?;
        println!("{}", poller.wait(&mut events, None)?);
    }
    let notifier = Arc::clone(&poller);
    let thread = std::thread::spawn(move || (0..1000).try_for_each(|_| notifier.notify()));
    while !thread.is_finished() {
        poller.wait(&mut events, Some(timeout))?;
    }
    thread.join().unwrap()?;
    println!("{}", events.is_empty());
    Ok(())
}
