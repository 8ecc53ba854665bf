//! `kv`: serves keys and values at TCP port 7379, and sends metrics to the address in `METRICS`.

#![forbid(unsafe_code)]

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{env, io, thread};

use hermit_sys::shutdown;
use kv::Service;

/// Time between two datagrams with metrics.
const METRICS_INTERVAL: Duration = Duration::from_secs(1);

fn main() -> io::Result<()> {
    let service: &'static Service = Box::leak(Box::default());
    let listener = TcpListener::bind("0.0.0.0:7379")?;
    thread::spawn(move || kv::serve(&listener, service));
    thread::spawn(move || kv::sweep(service));
    if let Ok(collector) = env::var("METRICS") {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        thread::spawn(move || report(&socket, &collector, service));
    }
    println!("listening on port 7379");
    shutdown::wait()?;
    println!("{} keys after {} requests", service.store().len(), service.requests.load(Ordering::Relaxed));
    Ok(())
}

/// Sends the metrics to a collector for ever, as gauges in the format of statsd.
fn report(socket: &UdpSocket, collector: &str, service: &Service) {
    loop {
        let keys = service.store().len();
        let requests = service.requests.load(Ordering::Relaxed);
        let metrics = format!("kv.keys:{keys}|g\nkv.requests:{requests}|g\n");
        if let Err(error) = socket.send_to(metrics.as_bytes(), collector) {
            eprintln!("metrics to {collector}: {error}");
        }
        thread::sleep(METRICS_INTERVAL);
    }
}
