//! The tables of the suite `fs`.

use super::{SuiteTable, TIME_COLUMNS};

/// Operations. Only times have the last three.
const ROWS: &[(&str, &str)] = &[
    ("open + close", ""),
    ("metadata", ""),
    ("read 1 B", ""),
    ("write 1 B", ""),
    ("seek", ""),
    ("create + unlink", ""),
    ("read 4 KiB", ""),
    ("write 4 KiB", ""),
    ("read 1 MiB", ""),
    ("write 1 MiB", ""),
    ("walk of 1 name", ""),
    ("walk of 4 names", ""),
    ("walk of 16 names", ""),
    ("entry of 10,000, listed", ""),
    ("file of 10,000, written", ""),
    ("file of 10,000, searched", ""),
];

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
