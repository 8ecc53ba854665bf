//! Crates for threads and asynchronous programs.

crate_uses::crate_uses! {
    "async-channel": async_channel,
    "async-trait": async_trait,
    "crossbeam": crossbeam,
    "crossbeam-channel": crossbeam_channel,
    "dashmap": dashmap,
    "event-listener": event_listener,
    "flume": flume,
    "futures": futures,
    "moka": moka,
    "num_cpus": num_cpus,
    "parking_lot": parking_lot,
    "pin-project": pin_project,
    "rayon": rayon,
    "spin": spin,
    "threadpool": threadpool,
    "tokio": tokio,
    "tokio-stream": tokio_stream,
    "tokio-util": tokio_util,
}
