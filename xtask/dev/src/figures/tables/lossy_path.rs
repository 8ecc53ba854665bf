//! The tables of `cargo xtask bench net --loss`.

use super::{NET_COLUMNS, SuiteTable};

/// Suite in the record.
const SUITE: &str = "net, loss";

/// Rows of throughput: the loss rate or reordering, and the round-trip time of each path.
const PATHS: &[(&str, &str)] = &[
    ("0.1 %, 10 ms", ""),
    ("1 %, 10 ms", ""),
    ("3 %, 10 ms", ""),
    ("10 %, 10 ms", ""),
    ("reordering, 10 ms", ""),
    ("0.1 %, 100 ms", ""),
    ("1 %, 100 ms", ""),
    ("3 %, 100 ms", ""),
    ("10 %, 100 ms", ""),
    ("reordering, 100 ms", ""),
];

/// Throughput of a flow that a guest sends.
pub(super) const FROM_GUEST: SuiteTable = SuiteTable {
    name: "net-loss-guest-to-host",
    suite: SUITE,
    part: "lossy path, guest to host (MB/s)",
    title: "guest to host, MB/s",
    columns: NET_COLUMNS,
    rows: PATHS,
};

/// Throughput of a flow that the host sends.
pub(super) const TO_GUEST: SuiteTable = SuiteTable {
    name: "net-loss-host-to-guest",
    suite: SUITE,
    part: "lossy path, host to guest (MB/s)",
    title: "host to guest, MB/s",
    columns: NET_COLUMNS,
    rows: PATHS,
};

/// Completion times of flows that a guest sends.
pub(super) const COMPLETION: SuiteTable = SuiteTable {
    name: "net-loss-completion",
    suite: SUITE,
    part: "completion time (ms)",
    title: "completion time, ms",
    columns: NET_COLUMNS,
    rows: &[
        ("10 KiB, 1 %, 10 ms, mean", ""),
        ("10 KiB, 1 %, 10 ms, p95", ""),
        ("1 MiB, 1 %, 10 ms, mean", ""),
        ("1 MiB, 1 %, 10 ms, p95", ""),
        ("10 KiB, 1 %, 100 ms, mean", ""),
        ("10 KiB, 1 %, 100 ms, p95", ""),
        ("1 MiB, 1 %, 100 ms, mean", ""),
        ("1 MiB, 1 %, 100 ms, p95", ""),
        ("100 MiB, 0 %, 10 ms", ""),
        ("100 MiB, 0.1 %, 10 ms", ""),
    ],
};

/// Fairness among flows that a guest sends.
pub(super) const FAIRNESS: SuiteTable = SuiteTable {
    name: "net-loss-fairness",
    suite: SUITE,
    part: "fairness (Jain's index)",
    title: "Jain's index",
    columns: NET_COLUMNS,
    rows: &[("2 flows, 10 ms", ""), ("10 flows, 10 ms", "")],
};

/// Number of cells whose throughput reaches the aims.
pub(super) const AIMS: SuiteTable = SuiteTable {
    name: "net-loss-aims",
    suite: SUITE,
    part: "aims reached",
    title: "throughput beside the Linux guest",
    columns: &[("cells", "cells"), ("of", "of"), ("aim", "aim")],
    rows: &[("at least 1.0 times", ""), ("at least 1.2 times", "")],
};
