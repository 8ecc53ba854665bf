//! Every byte arrives once and in order on any network; and durations on some networks.

use std::eprintln;
use std::vec::Vec;

use super::network::{Network, Path, Random, rate};
use crate::rtt::{MS, SECOND};
use crate::{Algorithm, Failure, Parameters};

#[test]
fn stream_arrives_over_an_ideal_network() {
    let size = if cfg!(miri) { 20_000 } else { 1 << 20 };
    let mut network = Network::new(1, [Path::IDEAL; 2], [size, size / 10]);
    assert!(network.run(60 * SECOND), "{}", network.ends[1].received);
    eprintln!("{} ms, {} segments", network.now / MS, network.ends[0].sent_segments);
    assert_eq!(network.ends[0].sent_bytes, size);
}

/// Durations in ms of transfers of 6 MiB over 100 Mbit/s, with round trips of 100 and 200 ms. The receive
/// buffers have `size` bytes at the start, and at most 4 MiB.
fn durations(size: u32) -> Vec<u64> {
    let duration = |round_trip| {
        let path =
            Path { delay: round_trip * MS / 2, ns_per_byte: 80, queue: 12_500 * round_trip, ..Path::IDEAL };
        let change = |parameters: &mut Parameters| parameters.receive_buffer = (size, 4 << 20);
        let mut network = Network::with(7, [path; 2], [TOTAL, 0], change);
        assert!(network.run(60 * SECOND));
        network.now / MS
    };
    [100, 200].map(duration).to_vec()
}

/// A buffer of only twice the bytes read in a round trip would hold slow start back.
#[test]
#[cfg_attr(miri, ignore = "24 MiB take hours")]
fn growing_receive_buffer_does_not_hold_slow_start_back() {
    for (growing, fixed) in durations(128 << 10).into_iter().zip(durations(4 << 20)) {
        assert!(growing <= fixed * 104 / 100, "{growing} {fixed}");
    }
}

/// Runs a random network: loss up to 20 %, duplication, jitter, slow links with short queues, slow readers,
/// small buffers.
fn run_seed(seed: u64, algorithm: Algorithm) {
    let mut random = Random(seed);
    let mut path = || Path {
        delay: random.below(100) * MS / 2,
        late: 0,
        jitter: if random.happens(5000) { random.below(40) * MS } else { 0 },
        loss: if random.happens(7000) { random.below(2000) } else { 0 },
        duplication: if random.happens(3000) { random.below(2000) } else { 0 },
        ns_per_byte: random.below(3) * 100,
        queue: 20_000 + random.below(200_000),
        marks: random.happens(3000),
    };
    let paths = [path(), path()];
    let share = if cfg!(miri) { 20 } else { 1 };
    let totals = [random.below(200_000) / share, random.below(100_000) / share];
    let (has_options, mss, ecn) = (random.happens(8000), random.below(1400) + 60, random.happens(5000));
    let buffer = u32::try_from(2000 + random.below(100_000)).unwrap();
    let mut network = Network::with(seed, paths, totals, |parameters| {
        parameters.algorithm = algorithm;
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
    // All seven SYNs or their answers may be lost. In this case there is no connection, and the first end has
    // timed out.
    if one.written == 0 && !one.has_finished {
        let failure = one.connection.as_ref().and_then(|connection| connection.failure());
        assert_eq!((failure, network.now), (Some(Failure::TimedOut), 127 * SECOND), "seed {seed}");
        assert_eq!((one.received, other.received), (0, 0), "seed {seed}");
        return;
    }
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
    run_seeds(Algorithm::Cubic);
}

#[test]
fn streams_arrive_over_random_networks_with_bbr() {
    run_seeds(Algorithm::Bbr);
}

fn run_seeds(algorithm: Algorithm) {
    // docs/tcp.md states the number of seeds of a long run.
    let few = if cfg!(miri) { 2 } else { 300 };
    let count = std::env::var("HERMIT_TCP_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(few);
    let first = std::env::var("HERMIT_TCP_FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    for seed in first..first + count {
        run_seed(seed, algorithm);
    }
}

/// Throughput of 6 MiB over 100 Mbit/s with a queue of 250 kB, as a table of comma-separated values: mean of
/// `SEEDS` runs, by round-trip time and loss in both directions. `mathis` is the limit of Reno, 1.22 MSS /
/// (RTT sqrt(p)), or the rate of the link. Run by `cargo test -p hermit-tcp --release throughput_by_loss --
/// --ignored --nocapture`.
#[test]
#[ignore = "prints a table"]
fn throughput_by_loss() {
    const SEEDS: u64 = 20;
    eprintln!("algorithm,rtt_ms,loss_percent,kb_per_s,mathis_kb_per_s,timeouts,sent_percent");
    for algorithm in [Algorithm::Cubic, Algorithm::Reno] {
        for delay in [10, 20, 100] {
            for loss in [0, 10, 100, 300, 1000] {
                print_throughput(algorithm, delay, loss, SEEDS);
            }
        }
    }
}

fn print_throughput(algorithm: Algorithm, delay: u64, loss: u64, seeds: u64) {
    let path = Path { delay: delay * MS / 2, loss, ns_per_byte: 80, queue: 250_000, ..Path::IDEAL };
    let (mut time, mut timeouts, mut sent) = (0, 0, 0);
    for seed in 0..seeds {
        let mut network =
            Network::with(seed, [path; 2], [TOTAL, 0], |parameters| parameters.algorithm = algorithm);
        assert!(network.run(4000 * SECOND), "{algorithm:?} {delay} {loss} {seed}");
        time += network.now;
        sent += network.ends[0].sent_bytes;
        timeouts += network.ends[0].connection.as_ref().unwrap().recovery.timeouts;
    }
    let share = f64::from(u32::try_from(loss).unwrap()) / 10_000.0;
    let rtt = f64::from(u32::try_from(delay).unwrap());
    eprintln!(
        "{algorithm:?},{delay},{},{},{:.0},{timeouts},{}",
        share * 100.0,
        rate(TOTAL * seeds, time) / 1000,
        (1.22 * 1448.0 / (rtt * share.sqrt())).min(12_500.0),
        sent * 100 / (TOTAL * seeds),
    );
}

/// Prints the duration of 6 MiB over 100 Mbit/s, with and without pacing, as a table of comma-separated
/// values. The queues hold a tenth, a quarter and all of the bytes that are sent in a round trip. `error` is
/// the standard error of the mean. Run by `cargo test -p hermit-tcp --release duration_by_queue -- --ignored
/// --nocapture`.
#[test]
#[ignore = "prints a table"]
fn duration_by_queue() {
    eprintln!("rtt_ms,loss_percent,queue_kb,is_paced,ms,error_ms,sent_percent");
    for delay in [10, 20, 100] {
        for (loss, count) in [(0, 2), (10, 40), (100, 100)] {
            for queue in [delay * 1250, delay * 3125, delay * 12_500] {
                print_duration(delay, (loss, count), queue, false);
                print_duration(delay, (loss, count), queue, true);
            }
        }
    }
}

fn print_duration(delay: u64, (loss, count): (u64, u32), queue: u64, is_paced: bool) {
    let path = Path { delay: delay * MS / 2, loss, ns_per_byte: 80, queue, ..Path::IDEAL };
    let (mut times, mut sent) = (Vec::new(), 0);
    for seed in 0..u64::from(count) {
        let mut network =
            Network::with(seed, [path; 2], [TOTAL, 0], |parameters| parameters.is_paced = is_paced);
        assert!(network.run(4000 * SECOND), "{delay} {loss} {seed}");
        times.push(f64::from(u32::try_from(network.now / 1000).unwrap()) / 1000.0);
        sent += network.ends[0].sent_bytes;
    }
    let (mean, error) = mean(&times);
    eprintln!(
        "{delay},{},{},{is_paced},{mean:.0},{error:.0},{}",
        f64::from(u32::try_from(loss).unwrap()) / 100.0,
        queue / 1000,
        sent * 100 / (TOTAL * u64::from(count)),
    );
}

/// The mean and its standard error.
pub(super) fn mean(values: &[f64]) -> (f64, f64) {
    let count = f64::from(u32::try_from(values.len()).unwrap());
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

pub(super) const TOTAL: u64 = 6 << 20;
