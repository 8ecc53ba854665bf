//! Comparison of congestion-control algorithms: on a path, and on a link that flows share.
//!
//! [`path`] is a link of 100 Mbit/s with a given RTT, loss and queue. Tests check durations and shares within
//! wide bounds. The tests that are ignored print tables for the documentation.

use std::eprintln;
use std::format;
use std::vec::Vec;

use super::network::{Network, Path};
use super::streams::{TOTAL, mean};
use crate::rtt::{MS, SECOND};
use crate::{Algorithm, Parameters};

/// Path of 100 Mbit/s. The queue holds `queue_percent` percent of the bytes that are sent in a round trip.
fn path(rtt_ms: u64, loss: u64, queue_percent: u64) -> Path {
    let queue = rtt_ms * 125 * queue_percent;
    Path { delay: rtt_ms * MS / 2, loss, ns_per_byte: 80, queue, ..Path::IDEAL }
}

/// Returns the duration of a transfer of 6 MiB in ms, and the sent bytes in percent of the data.
fn duration(seed: u64, algorithm: Algorithm, path: Path) -> (f64, u64) {
    let mut network =
        Network::with(seed, [path; 2], [TOTAL, 0], |parameters| parameters.algorithm = algorithm);
    assert!(network.run(4000 * SECOND), "{algorithm:?} {path:?} {seed}");
    let time = f64::from(u32::try_from(network.now / 1000).unwrap()) / 1000.0;
    (time, network.ends[0].sent_bytes * 100 / TOTAL)
}

/// Flows of several connections over one link, in lockstep.
struct SharedLink {
    flows: Vec<Network>,
}

impl SharedLink {
    /// Creates flows that begin at the same time and never end. Their data shares one link; the
    /// acknowledgements of each flow have a link of their own.
    fn new(seed: u64, path: Path, algorithms: &[Algorithm]) -> Self {
        let flow = |(seed, &algorithm): (u64, &Algorithm)| {
            Network::with(seed, [path; 2], [1 << 40, 0], |parameters| parameters.algorithm = algorithm)
        };
        let mut flows: Vec<_> = (seed..).zip(algorithms).map(flow).collect();
        let link = flows[0].ends[0].busy_until.clone();
        flows.iter_mut().for_each(|flow| flow.ends[0].busy_until = link.clone());
        Self { flows }
    }

    fn run_until(&mut self, end: u64) {
        loop {
            self.flows.iter_mut().for_each(Network::serve_ends);
            let next = self.flows.iter().filter_map(Network::next).min();
            let Some(next) = next.filter(|&next| next <= end) else { return };
            self.flows.iter_mut().for_each(|flow| flow.advance(next));
        }
    }

    fn received(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.ends[1].received).collect()
    }

    /// Throughput of each flow in Mbit/s, from second 10 to second `end`.
    fn throughputs(&mut self, end: u64) -> Vec<f64> {
        self.run_until(10 * SECOND);
        let before = self.received();
        self.run_until(end * SECOND);
        let bits = |(after, before): (u64, u64)| f64::from(u32::try_from((after - before) / 125).unwrap());
        self.received().into_iter().zip(before).map(|pair| bits(pair) / 1000.0 / (end - 10) as f64).collect()
    }
}

/// CUBIC would take several times as long, since random losses keep its window small. BBR sends at the rate
/// of the link.
#[test]
#[cfg_attr(miri, ignore = "6 MiB take hours")]
fn bbr_does_not_take_random_losses_for_congestion() {
    let times: Vec<_> = (0..5).map(|seed| duration(seed, Algorithm::Bbr, path(100, 100, 100)).0).collect();
    assert!(mean(&times).0 < 4000.0, "{times:?}");
}

/// On this path, only a full queue loses segments. Slow start ends before it fills the queue, also if some
/// segments are late.
#[test]
#[cfg_attr(miri, ignore = "6 MiB take hours")]
fn slow_start_ends_before_the_queue_is_full() {
    for late in [0, 100] {
        let path = Path { late, ..path(100, 0, 100) };
        let flows: Vec<_> = (0..6).map(|seed| duration(seed, Algorithm::Cubic, path)).collect();
        assert!(flows.iter().all(|&(time, sent)| time < 1500.0 && sent <= 104), "{late} {flows:?}");
    }
}

/// `TCP_CONGESTION` in the middle of a stream, with segments in flight and losses being repaired.
#[test]
fn algorithm_may_change_at_any_time() {
    let size = if cfg!(miri) { 30_000 } else { 1 << 20 };
    for seed in 0..if cfg!(miri) { 1 } else { 10 } {
        let path = path(20, 100, 100);
        let mut network = Network::new(seed, [path; 2], [size, 0]);
        let algorithms = [Algorithm::Bbr, Algorithm::Reno, Algorithm::Cubic, Algorithm::Unlimited];
        let mut next = algorithms.into_iter().cycle();
        for step in 0.. {
            network.serve_ends();
            if network.is_done() {
                break;
            }
            network.advance(network.next().unwrap());
            let now = network.now;
            assert!(step < 100_000 && now < 60 * SECOND, "{seed}: {}", network.ends[1].received);
            if step % 11 == 10 {
                network.ends[0].connection.as_mut().unwrap().set_algorithm(next.next().unwrap(), now);
            }
        }
    }
}

/// As in Linux, `TCP_CONGESTION` with the present algorithm changes nothing.
#[test]
fn setting_the_same_algorithm_keeps_its_state() {
    for algorithm in [Algorithm::Cubic, Algorithm::Reno, Algorithm::Bbr] {
        let mut network = Network::with(1, [path(20, 0, 100); 2], [1 << 20, 0], |parameters| {
            parameters.algorithm = algorithm;
        });
        for _ in 0..200 {
            network.serve_ends();
            network.advance(network.next().unwrap());
        }
        let now = network.now;
        let connection = network.ends[0].connection.as_mut().unwrap();
        let before = format!("{connection:?}");
        connection.set_algorithm(algorithm, now + SECOND);
        assert_eq!(format!("{connection:?}"), before, "{algorithm:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "megabytes take hours")]
fn bbr_flows_share_a_link() {
    let throughputs = SharedLink::new(1, path(20, 0, 100), &[Algorithm::Bbr; 2]).throughputs(30);
    assert!(throughputs.iter().all(|&throughput| throughput > 25.0), "{throughputs:?}");
    assert!(throughputs.iter().sum::<f64>() > 85.0, "{throughputs:?}");
}

/// Prints durations of 6 MiB over 100 Mbit/s as a table of comma-separated values. The queues hold a tenth, a
/// quarter and all of the bytes that are sent in a round trip. `error` is the standard error of the mean;
/// `reordering` is an additional random delay of up to a fifth of the RTT. Run by `cargo test -p hermit-tcp
/// --release duration_by_algorithm -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table"]
fn duration_by_algorithm() {
    eprintln!("rtt_ms,loss_percent,queue_percent,reordering,algorithm,ms,error_ms,sent_percent");
    for rtt in [10, 100] {
        for (loss, count) in [(0, 5), (10, 40), (100, 40), (300, 40), (1000, 20)] {
            for queue in [10, 25, 100] {
                print_durations(rtt, path(rtt, loss, queue), (loss, queue), count);
            }
        }
        for loss in [0, 100] {
            let jitter = rtt * MS / 5;
            print_durations(rtt, Path { jitter, ..path(rtt, loss, 100) }, (loss, 100), 40);
        }
    }
}

fn print_durations(rtt: u64, path: Path, (loss, queue): (u64, u64), count: u64) {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
        let runs: Vec<_> = (0..count).map(|seed| duration(seed, algorithm, path)).collect();
        let (time, error) = mean(&runs.iter().map(|run| run.0).collect::<Vec<_>>());
        let sent = runs.iter().map(|run| run.1).sum::<u64>() / count;
        let loss = loss as f64 / 100.0;
        eprintln!("{rtt},{loss},{queue},{},{algorithm:?},{time:.0},{error:.0},{sent}", path.jitter > 0);
    }
}

/// Throughput of flows that share 100 Mbit/s, from second 10 to second 40, as a table of comma-separated
/// values. Run by `cargo test -p hermit-tcp --release throughput_on_a_shared_link -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table"]
fn throughput_on_a_shared_link() {
    const MIXES: [&[Algorithm]; 5] = [
        &[Algorithm::Cubic; 2],
        &[Algorithm::Bbr; 2],
        &[Algorithm::Bbr, Algorithm::Cubic],
        &[Algorithm::Bbr; 4],
        &[Algorithm::Bbr, Algorithm::Cubic, Algorithm::Cubic, Algorithm::Cubic],
    ];
    const SEEDS: u64 = 5;
    eprintln!("rtt_ms,queue_percent,flows,mbit_per_s");
    for rtt in [10, 100] {
        for queue in [25, 100, 400] {
            for flows in MIXES {
                let runs: Vec<_> = (0..SEEDS)
                    .map(|seed| SharedLink::new(seed * 10, path(rtt, 0, queue), flows).throughputs(40))
                    .collect();
                print_shares(&format!("{rtt},{queue}"), flows, &runs);
            }
        }
    }
}

fn print_shares(label: &str, flows: &[Algorithm], runs: &[Vec<f64>]) {
    let share = |(index, algorithm): (usize, &Algorithm)| {
        let (throughput, error) = mean(&runs.iter().map(|run| run[index]).collect::<Vec<_>>());
        format!("{algorithm:?} {throughput:.1} ± {error:.1}")
    };
    eprintln!("{label},{}", flows.iter().enumerate().map(share).collect::<Vec<_>>().join(" | "));
}

/// Prints the throughput of 64 MiB on short paths, where only BBR paces, as a table of comma-separated
/// values. Run by `cargo test -p hermit-tcp --release throughput_on_short_paths -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table"]
fn throughput_on_short_paths() {
    const SIZE: u64 = 64 << 20;
    eprintln!("rtt_us,ns_per_byte,queue_kb,algorithm,mbit_per_s,sent_percent");
    for (rtt_us, ns_per_byte, queue) in
        [(100, 1, 1000), (100, 1, 100), (200, 8, 250), (200, 8, 50), (500, 8, 250)]
    {
        for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
            let path = Path { delay: rtt_us * 500, ns_per_byte, queue: queue * 1000, ..Path::IDEAL };
            let change = |parameters: &mut Parameters| parameters.algorithm = algorithm;
            let mut network = Network::with(3, [path; 2], [SIZE, 0], change);
            assert!(network.run(60 * SECOND));
            let (rate, sent) = (SIZE * 8000 / network.now, network.ends[0].sent_bytes * 100 / SIZE);
            eprintln!("{rtt_us},{ns_per_byte},{queue},{algorithm:?},{rate},{sent}");
        }
    }
}
