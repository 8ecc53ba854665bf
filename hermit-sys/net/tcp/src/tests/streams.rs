//! Every byte arrives once and in order, whatever the network does; and how fast.

use std::eprintln;

use super::network::{Network, Path, Random, rate};
use crate::rtt::{MS, SECOND};

#[test]
fn stream_arrives_over_an_ideal_network() {
    let mut network = Network::new(1, [Path::IDEAL; 2], [1 << 20, 100_000]);
    assert!(network.run(60 * SECOND), "{}", network.ends[1].received);
    eprintln!("{} ms, {} segments", network.now / MS, network.ends[0].sent_segments);
    assert_eq!(network.ends[0].sent_bytes, 1 << 20);
}

/// A network at random: loss up to 20 %, duplication, jitter, slow links with short queues, slow readers, small buffers.
fn run_seed(seed: u64) {
    let mut random = Random(seed);
    let mut path = || Path {
        delay: random.below(100) * MS / 2,
        jitter: if random.happens(5000) { random.below(40) * MS } else { 0 },
        loss: if random.happens(7000) { random.below(2000) } else { 0 },
        duplication: if random.happens(3000) { random.below(2000) } else { 0 },
        ns_per_byte: random.below(3) * 100,
        queue: 20_000 + random.below(200_000),
        marks: random.happens(3000),
    };
    let paths = [path(), path()];
    let totals = [random.below(200_000), random.below(100_000)];
    let (has_options, mss, ecn) = (random.happens(8000), random.below(1400) + 60, random.happens(5000));
    let buffer = u32::try_from(2000 + random.below(100_000)).unwrap();
    let mut network = Network::with(seed, paths, totals, |parameters| {
        parameters.has_options = has_options;
        parameters.mss = u16::try_from(mss).unwrap();
        parameters.asks_for_ecn = ecn;
        parameters.receive_buffer = (buffer, buffer * 4);
        parameters.send_buffer = (buffer, buffer * 4);
    });
    if random.happens(2000) {
        network.ends[1].read_rate = 100 + random.below(10_000);
    }
    let is_done = network.run(4000 * SECOND);
    let [one, other] = &network.ends;
    let failed = [one, other].map(|end| end.connection.as_ref().and_then(|connection| connection.failure()));
    assert!(
        is_done,
        "seed {seed}: {paths:?} {totals:?}, {} and {} received, {failed:?}, at {} ms",
        one.received,
        other.received,
        network.now / MS
    );
}

#[test]
fn streams_arrive_over_random_networks() {
    // One million were run once; see docs/measurements.md.
    let count = std::env::var("HERMIT_TCP_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let first = std::env::var("HERMIT_TCP_FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    for seed in first..first + count {
        run_seed(seed);
    }
}

#[test]
#[ignore = "prints throughputs"]
fn throughput_by_loss() {
    for delay in [10, 100] {
        for loss in [0, 10, 100, 300, 1000] {
            let path = Path { delay: delay * MS / 2, loss, ns_per_byte: 80, queue: 250_000, ..Path::IDEAL };
            let mut network = Network::new(7, [path; 2], [6 << 20, 0]);
            let is_done = network.run(1000 * SECOND);
            eprintln!(
                "{delay} ms, {loss} in 10,000: {} kB/s, {} bytes sent, {is_done}",
                rate(network.ends[1].received, network.now) / 1000,
                network.ends[0].sent_bytes
            );
        }
    }
}
