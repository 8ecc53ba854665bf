//! The tables of the suite `fs`.

use super::{SuiteTable, TIME_COLUMNS};
use crate::bench::operations::{FS, MOUNTED, rows};

/// Operations. Only times have the last three.
const ROWS: &[(&str, &str)] = &rows(&FS);

/// Instructions, beside a Linux guest.
pub(super) const INSTRUCTIONS: SuiteTable = SuiteTable {
    name: "fs",
    suite: "fs",
    part: "",
    title: "operation, instructions",
    columns: &[("this kernel", "ours"), ("Linux guest", "linux"), ("aim", "aim")],
    rows: ROWS,
};

/// Times, in a process beside Linux.
pub(super) const TIMES: SuiteTable = SuiteTable {
    name: "fs-process",
    suite: "fs, process",
    part: "",
    title: "operation, ns",
    columns: TIME_COLUMNS,
    rows: ROWS,
};

/// Times in a folder of the host, in a process beside Linux in the same folder. There are no aims.
pub(super) const MOUNTED_TIMES: SuiteTable = SuiteTable {
    name: "fs-mounted",
    suite: "fs, mounted",
    part: "",
    title: "operation, ns",
    columns: &[
        ("this kernel", "ours"),
        ("Linux, 1 CPU", "linux"),
        ("ratio", "ratio"),
        ("Linux, all CPUs", "linux, all CPUs"),
    ],
    rows: &rows(&MOUNTED),
};
