//! The measuring client.

use std::io;

use crate::arguments::{NetTest, Settings};
use crate::{connections, flows, latency, throughput};

/// Performs the selected measurements, and prints each result when it is complete.
pub(crate) fn measure(server: &str, settings: &Settings) -> io::Result<()> {
    settings.tests.iter().try_for_each(|test| match test {
        NetTest::Throughput => throughput::measure(server, settings),
        NetTest::Latency => latency::measure(server, settings),
        NetTest::Connections => connections::sequential(server, settings),
        NetTest::Concurrent => connections::concurrent(server, settings),
        NetTest::Flows => flows::measure(server, settings),
    })
}

/// Returns the message sizes in bytes: the size of `--message`, or else the default sizes.
pub(crate) fn sizes(settings: &Settings, default: &[u32]) -> Vec<u32> {
    settings.message.map_or_else(|| default.to_vec(), |size| vec![size])
}
