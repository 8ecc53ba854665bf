//! The one who measures.

use std::io;

use crate::arguments::{Settings, Test};
use crate::{connections, latency, throughput};

/// Makes all measurements that are asked for, and prints each when it is done.
pub(crate) fn measure(server: &str, settings: &Settings) -> io::Result<()> {
    settings.tests.iter().try_for_each(|test| match test {
        Test::Throughput => throughput::measure(server, settings),
        Test::Latency => latency::measure(server, settings),
        Test::Connections => connections::one_by_one(server, settings),
        Test::Concurrent => connections::at_the_same_time(server, settings),
    })
}

/// The sizes to measure: these, or the one that is asked for.
pub(crate) fn sizes(settings: &Settings, usual: &[u32]) -> Vec<u32> {
    settings.message.map_or_else(|| usual.to_vec(), |size| vec![size])
}
