//! The tables of the suite `mixed`.

use super::SuiteTable;

/// Works of the suite, while zero, one or two threads for each CPU compute: on the process engine compared
/// with Linux, and in QEMU compared with a Linux guest.
pub(super) const MIXED: [SuiteTable; 12] = [
    table("mixed-1-0", "mixed", "CPUs 1, computing threads 0"),
    table("mixed-1-1", "mixed", "CPUs 1, computing threads 1"),
    table("mixed-1-2", "mixed", "CPUs 1, computing threads 2"),
    table("mixed-2-0", "mixed", "CPUs 2, computing threads 0"),
    table("mixed-2-2", "mixed", "CPUs 2, computing threads 2"),
    table("mixed-2-4", "mixed", "CPUs 2, computing threads 4"),
    table("mixed-qemu-1-0", "mixed, qemu", "CPUs 1, computing threads 0"),
    table("mixed-qemu-1-1", "mixed, qemu", "CPUs 1, computing threads 1"),
    table("mixed-qemu-1-2", "mixed, qemu", "CPUs 1, computing threads 2"),
    table("mixed-qemu-2-0", "mixed, qemu", "CPUs 2, computing threads 0"),
    table("mixed-qemu-2-2", "mixed, qemu", "CPUs 2, computing threads 2"),
    table("mixed-qemu-2-4", "mixed, qemu", "CPUs 2, computing threads 4"),
];

const fn table(name: &'static str, suite: &'static str, part: &'static str) -> SuiteTable {
    SuiteTable { name, suite, part, title: part, columns: COLUMNS, rows: ROWS }
}

const COLUMNS: &[(&str, &str)] = &[
    ("this kernel", "ours"),
    ("Linux", "linux"),
    ("ratio", "ratio"),
    ("computing threads", "computing_ours"),
    ("on Linux", "computing_linux"),
];

const ROWS: &[(&str, &str)] = &[
    ("append of 4 KiB: a second", ""),
    ("channels: rounds a second", ""),
    ("echo: rounds a second", ""),
    ("spawn and join: a second", ""),
    ("condvar: least share of a thread", ""),
    ("mutex: least share of a thread", ""),
    ("rwlock: least share of a thread", ""),
    ("rename: least share of a thread", ""),
    ("HTTP, 1,000 requests a second: answered after (us), p50", ""),
    ("HTTP, 1,000 requests a second: answered after (us), p99", ""),
    ("sleep of 1 ms: late by (us), p50", ""),
    ("sleep of 1 ms: late by (us), p99", ""),
    ("100 timers: late by (us), p50", ""),
    ("100 timers: late by (us), p99", ""),
];
