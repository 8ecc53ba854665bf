//! The cells of the measurement: paths, and flows on them.

use super::super::relay::Impairments;
use super::super::topic::Table;

/// Rate of each path in bits per second.
const RATE: u64 = 100_000_000;

/// Round-trip times of the paths, in milliseconds.
const ROUND_TRIPS: [u64; 2] = [10, 100];

/// Random losses for throughput: the printed text, and the number of lost frames in a million.
const LOSSES: [(&str, u64); 4] = [("0.1 %", 1_000), ("1 %", 10_000), ("3 %", 30_000), ("10 %", 100_000)];

/// Maximum random loss, in frames of a million, at which several flows are measured. With so little loss, a
/// flow loses only a few frames, and its throughput depends on when chance loses them.
const FEW_LOSSES: u64 = 1_000;

/// Time limit of a flow whose throughput is measured, in milliseconds.
const THROUGHPUT_LIMIT: u64 = 10_000;

/// Bytes of a flow whose throughput is measured.
const THROUGHPUT_BYTES: u64 = 6 << 20;

/// Bytes of a flow that does not end before its time limit.
const ENDLESS: u64 = u32::MAX as u64;

/// Nanoseconds per millisecond.
const MILLISECOND: u64 = 1_000_000;

/// Figure that is computed from the flows of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Bytes per second.
    Throughput,
    /// Mean and 95th percentile of the completion times.
    Completion,
    /// Jain's index of the bytes of each flow.
    Fairness,
}

/// A measurement: flows on a path.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) table: Table,
    pub(super) row: String,
    pub(super) path: Impairments,
    pub(super) measure: Measure,
    /// Number of flows. They run at the same time for fairness, and otherwise one after the other.
    pub(super) flows: u64,
    /// Bytes of each flow.
    pub(super) bytes: u64,
    /// Time limit of each flow in milliseconds.
    pub(super) limit_ms: u64,
}

impl Cell {
    /// Returns true if the guest receives the flows.
    pub(super) fn is_to_guest(&self) -> bool {
        self.table == Table::LossyToServer
    }
}

/// Returns all cells in groups. The systems take turns after each group.
pub(super) fn groups(is_long: bool) -> Vec<(&'static str, Vec<Cell>)> {
    let [short, long] = ROUND_TRIPS.map(|round_trip| {
        [Table::LossyFromServer, Table::LossyToServer]
            .into_iter()
            .flat_map(|table| throughput(table, round_trip))
            .collect()
    });
    let completion = ROUND_TRIPS.into_iter().flat_map(completion).chain(large_flows(is_long)).collect();
    vec![
        ("throughput, 10 ms", short),
        ("throughput, 100 ms", long),
        ("completion", completion),
        ("fairness", fairness()),
    ]
}

/// Returns a path. Its queue has room for the bytes that the bottleneck sends in a round-trip time.
fn path(round_trip_ms: u64, loss_ppm: u64) -> Impairments {
    Impairments {
        loss_ppm,
        rate: Some(RATE),
        queue_bytes: RATE / 8 * round_trip_ms / 1000,
        delay_ns: round_trip_ms * MILLISECOND / 2,
        ..Impairments::default()
    }
}

/// Returns a path with jitter of up to 1 ms, which holds back one in a hundred frames for 2 ms.
fn reordering_path(round_trip_ms: u64) -> Impairments {
    Impairments {
        jitter_ns: MILLISECOND,
        reordering_ppm: 10_000,
        reordering_ns: 2 * MILLISECOND,
        ..path(round_trip_ms, 0)
    }
}

fn throughput(table: Table, round_trip: u64) -> Vec<Cell> {
    let lossy = LOSSES.into_iter().map(|(name, loss)| (name, path(round_trip, loss)));
    lossy
        .chain([("reordering", reordering_path(round_trip))])
        .map(|(name, path)| Cell {
            table,
            row: format!("{name}, {round_trip} ms"),
            path,
            measure: Measure::Throughput,
            flows: if path.loss_ppm > FEW_LOSSES { 1 } else { 3 },
            bytes: THROUGHPUT_BYTES,
            limit_ms: THROUGHPUT_LIMIT,
        })
        .collect()
}

/// Returns the cells of small flows.
fn completion(round_trip: u64) -> [Cell; 2] {
    [("10 KiB", 10 << 10, 100), ("1 MiB", 1 << 20, 5)].map(|(size, bytes, flows)| Cell {
        table: Table::Completion,
        row: format!("{size}, 1 %, {round_trip} ms"),
        path: path(round_trip, 10_000),
        measure: Measure::Completion,
        flows,
        bytes,
        limit_ms: 30_000,
    })
}

/// Returns the cells of large flows.
fn large_flows(is_long: bool) -> Vec<Cell> {
    let losses = if is_long { &[("0 %", 0), ("0.1 %", 1_000)][..] } else { &[("0 %", 0)] };
    let cell = |&(name, loss): &(&str, u64)| Cell {
        table: Table::Completion,
        row: format!("100 MiB, {name}, 10 ms"),
        path: path(10, loss),
        measure: Measure::Completion,
        flows: 1,
        bytes: 100 << 20,
        limit_ms: 120_000,
    };
    losses.iter().map(cell).collect()
}

fn fairness() -> Vec<Cell> {
    let cell = |flows| Cell {
        table: Table::Fairness,
        row: format!("{flows} flows, 10 ms"),
        path: path(10, 0),
        measure: Measure::Fairness,
        flows,
        bytes: ENDLESS,
        limit_ms: 10_000,
    };
    [2, 10].map(cell).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Table, groups, path};

    #[test]
    fn rows_are_distinct_within_their_tables() {
        for is_long in [false, true] {
            let cells = groups(is_long).into_iter().flat_map(|(_, cells)| cells).collect::<Vec<_>>();
            let rows: BTreeSet<_> = cells.iter().map(|cell| (cell.table, cell.row.clone())).collect();
            assert_eq!(rows.len(), cells.len());
            assert_eq!(cells.iter().filter(|cell| cell.table == Table::LossyToServer).count(), 10);
        }
    }

    #[test]
    fn queue_holds_what_is_sent_in_a_round_trip() {
        assert_eq!(path(100, 0).queue_bytes, 1_250_000);
        assert_eq!(path(100, 0).delay_ns, 50_000_000);
    }
}
