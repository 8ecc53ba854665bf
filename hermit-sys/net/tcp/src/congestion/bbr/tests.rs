//! The states of BBR, tested with samples of a simulated path.
//!
//! A [`Flow`] calls the algorithm with one acknowledgement per round. A test sets the rate and the losses of
//! a round, and checks state, rate and window afterwards.

use super::probe_rtt::MinRtt;
use super::{Bbr, State};
use crate::congestion::{Acked, CongestionControl, Lost, Sample, Window};
use crate::rtt::{MS, SECOND};
use crate::seq::Seq;

const MSS: u32 = 1000;
const RTT: u64 = 100 * MS;

/// 10 MB/s: a megabyte in a round trip.
const RATE: u64 = 10_000_000;
const BDP: u32 = 1_000_000;

/// A sample of a rate.
pub(super) fn sample(rate: u64) -> Sample {
    Sample {
        total: Seq(0),
        prior: Seq(0),
        delivered: u32::try_from(rate / 10).unwrap(),
        rate,
        rtt: Some(RTT),
        lost: 0,
        sent_in_flight: 0,
        in_flight: 0,
        is_window_limited: false,
        is_recovering: false,
        is_app_limited: false,
        has_sack: true,
    }
}

struct Flow {
    bbr: Bbr,
    window: Window,
    total: Seq,
    now: u64,
}

impl Flow {
    fn new() -> Self {
        let window = Window::new(MSS);
        Self { bbr: Bbr::new(Seq(7), &window, Some(RTT), 0), window, total: Seq(0), now: 0 }
    }

    /// A round in which data is delivered at a rate.
    fn round(&mut self, rate: u64, change: impl FnOnce(&mut Sample)) -> State {
        self.now += RTT;
        let mut sample = sample(rate);
        sample.prior = self.total;
        self.total = self.total + sample.delivered;
        (sample.total, sample.sent_in_flight, sample.in_flight) = (self.total, BDP, BDP);
        change(&mut sample);
        let acked = Acked {
            bytes: sample.delivered,
            una: Seq(0),
            nxt: Seq(0),
            rtt: sample.rtt,
            smoothed_rtt: RTT,
            sample: Some(sample),
            now: self.now,
        };
        self.bbr.on_ack(&mut self.window, &acked);
        self.bbr.state
    }

    /// A flow that knows the path, in Cruise.
    fn cruising() -> Self {
        let mut flow = Self::new();
        while flow.round(RATE, |_| ()) != State::Cruise {
            assert!(flow.now < SECOND);
        }
        flow
    }

    /// Runs until BBR probes for bandwidth, and prevents an earlier measurement of the RTT. Returns the
    /// elapsed time.
    fn run_to_up(&mut self) -> u64 {
        let start = self.now;
        self.bbr.min_rtt = MinRtt::new(Some(RTT), start);
        while self.round(RATE, |_| ()) != State::Up {
            assert!(self.now < start + 10 * SECOND);
        }
        self.now - start
    }

    /// Loses `lost` bytes that were sent while `in_flight` bytes were in flight.
    fn lose(&mut self, lost: u32, in_flight: u32) {
        let lost = Lost {
            start: self.total,
            end: self.total + MSS,
            total: self.total,
            lost,
            sent_in_flight: in_flight,
            is_app_limited: false,
            has_sack: true,
            now: self.now,
        };
        self.bbr.on_lost(&self.window, &lost);
    }

    fn rate(&self) -> u64 {
        self.bbr.pacing_rate().unwrap()
    }
}

#[test]
fn startup_ends_when_the_rate_does_not_grow() {
    let mut flow = Flow::new();
    // 2.77 times 10 segments in a round trip.
    assert_eq!(flow.rate(), 277_000);
    for rate in [100_000, 1_000_000, RATE, RATE, RATE] {
        assert_eq!(flow.round(rate, |sample| sample.in_flight = 2 * BDP), State::Startup);
    }
    assert_eq!(flow.rate(), RATE * 277 / 100 * 99 / 100);
    assert_eq!(flow.round(RATE, |sample| sample.in_flight = 2 * BDP), State::Drain);
    assert_eq!(flow.rate(), RATE / 2 * 99 / 100);
    assert_eq!(flow.round(RATE, |_| ()), State::Cruise);
    assert_eq!(flow.rate(), RATE * 99 / 100);
}

#[test]
fn startup_without_data_goes_on() {
    let mut flow = Flow::new();
    for _ in 0..20 {
        assert_eq!(flow.round(RATE, |sample| sample.is_app_limited = true), State::Startup);
    }
}

#[test]
fn startup_ends_with_a_recovery_that_loses_2_percent_in_6_ranges() {
    let run = |ranges: u32, lost: u32| {
        let mut flow = Flow::new();
        flow.round(RATE / 4, |_| ());
        for _ in 0..ranges {
            flow.lose(lost, BDP);
            flow.total = flow.total + 2 * MSS;
        }
        flow.round(RATE, |sample| {
            (sample.prior, sample.lost, sample.is_recovering) = (sample.total, lost, true);
            sample.in_flight = 2 * BDP;
        })
    };
    assert_eq!((run(5, 30_000), run(6, 20_000)), (State::Startup, State::Startup));
    assert_eq!(run(6, 30_000), State::Drain);
}

/// The next probing begins after 62 or 63 rounds, or after 2 to 3 s.
#[test]
fn cycle_probes_for_bandwidth() {
    let mut flow = Flow::cruising();
    let time = flow.run_to_up();
    assert!((2 * SECOND..3 * SECOND + 3 * RTT).contains(&time), "{time}");
    assert_eq!(flow.rate(), RATE * 125 / 100 * 99 / 100);
    assert_eq!(flow.window.size, 2_252_000 + flow.bbr.aggregation.get());
    // A growing rate continues the probing. Three rounds without growth end it.
    for _ in 0..3 {
        assert_eq!(flow.round(2 * RATE, |_| ()), State::Up);
    }
    assert_eq!(flow.round(2 * RATE, |_| ()), State::Down);
    assert_eq!(flow.rate(), 2 * RATE * 90 / 100 * 99 / 100);
    assert_eq!(flow.round(2 * RATE, |_| ()), State::Cruise);
}

#[test]
fn losses_of_a_probing_bound_what_is_in_flight() {
    let mut flow = Flow::cruising();
    flow.run_to_up();
    flow.lose(20_000, 1_200_000);
    assert_eq!((flow.bbr.state, flow.bbr.bounds.longterm), (State::Up, u32::MAX));
    flow.lose(30_000, 1_200_000);
    assert_eq!((flow.bbr.state, flow.bbr.bounds.longterm), (State::Down, 1_199_000));
    // 15 % is left to other flows.
    while flow.round(RATE, |_| ()) != State::Cruise {}
    assert_eq!(flow.window.size, 1_199_000 - 11_990 * 15);
    // The next probing ends at the same volume. This probing lost little, so another one follows at once.
    flow.run_to_up();
    assert_eq!(flow.round(RATE, |sample| sample.in_flight = 1_200_000), State::Down);
    assert_eq!(flow.round(RATE, |_| ()), State::Refill);
    assert_eq!(flow.round(RATE, |_| ()), State::Up);
    let limited = |sample: &mut Sample| (sample.in_flight, sample.is_window_limited) = (1_200_000, true);
    // The bound grows by a segment for each acknowledged window, then for each half, then for each quarter of
    // it.
    for longterm in [1_199_000, 1_202_000, 1_206_000] {
        assert_eq!((flow.round(RATE, limited), flow.bbr.bounds.longterm), (State::Up, longterm));
    }
}

#[test]
fn losses_in_cruise_bound_the_rate_until_the_next_probing() {
    let mut flow = Flow::cruising();
    let window = flow.window.size;
    // The bound becomes the delivered rate, but at least 0.7 times the earlier bound.
    for (rate, bound) in [(RATE * 8 / 10, RATE * 8 / 10), (RATE / 2, RATE * 56 / 100)] {
        flow.round(rate, |_| ());
        flow.lose(1000, BDP);
        flow.round(rate, |_| ());
        assert_eq!(flow.rate(), bound * 99 / 100);
    }
    assert!(flow.window.size < window * 6 / 10, "{}", flow.window.size);
    flow.run_to_up();
    assert_eq!(flow.rate(), RATE * 125 / 100 * 99 / 100);
}

#[test]
fn spurious_losses_are_undone() {
    let mut flow = Flow::cruising();
    flow.run_to_up();
    flow.lose(30_000, 1_200_000);
    assert_eq!(flow.bbr.state, State::Down);
    flow.bbr.undo_losses();
    assert_eq!((flow.bbr.state, flow.bbr.bounds.longterm), (State::Refill, u32::MAX));
}

#[test]
fn minimum_rtt_is_measured_after_5_s_with_half_of_the_window() {
    let mut flow = Flow::cruising();
    let mut lengthen = |rtt: u64| flow.round(RATE, |sample| sample.rtt = Some(rtt));
    while lengthen(RTT + 20 * MS) != State::ProbeRtt {}
    assert!((5 * SECOND..6 * SECOND).contains(&flow.now), "{}", flow.now);
    assert_eq!(flow.window.size, BDP / 2);
    // The measurement lasts until less is in flight, and then for 200 ms and a round.
    assert_eq!(flow.round(RATE, |_| ()), State::ProbeRtt);
    for _ in 0..3 {
        let sample = |sample: &mut Sample| (sample.in_flight, sample.rtt) = (BDP / 2, Some(RTT + 5 * MS));
        assert_eq!(flow.round(RATE, sample), State::ProbeRtt);
    }
    assert_eq!(flow.round(RATE, |sample| sample.in_flight = BDP / 2), State::Cruise);
    assert!(flow.window.size > BDP);
}

#[test]
fn pause_replaces_the_measurement_of_the_minimum_rtt() {
    let mut flow = Flow::cruising();
    flow.now += 6 * SECOND;
    flow.bbr.on_restart(&mut flow.window, true, flow.now);
    assert_ne!(flow.round(RATE, |sample| sample.rtt = Some(RTT + MS)), State::ProbeRtt);
}

/// A connection whose owner has little to send may stay in Startup. Its delivered bytes exceed any counter.
#[test]
fn window_of_app_limited_data_stays_within_the_model() {
    let mut flow = Flow::new();
    let mut largest_until = |total: u32| {
        let mut largest = 0;
        while flow.total.0 < total {
            flow.round(RATE, |sample| (sample.is_app_limited, sample.in_flight) = (true, 0));
            largest = largest.max(flow.window.size);
        }
        largest
    };
    let first = largest_until(1 << 30);
    assert_eq!(largest_until(3 << 30), first);
}
