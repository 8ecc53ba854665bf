//! The tables of the suite `fs`.

use super::{SuiteTable, TIME_COLUMNS};
use crate::bench::operations::{FS, MOUNTED, rows};

/// Rows: the operations of the suite. The last three are measured only as times.
const ROWS: &[(&str, &str)] = &rows(&FS);

/// Instructions, compared with a Linux guest.
pub(super) const INSTRUCTIONS: SuiteTable = SuiteTable {
    name: "fs",
    suite: "fs",
    part: "",
    title: "operation, instructions",
    columns: &[("this kernel", "ours"), ("Linux guest", "linux"), ("aim", "aim")],
    rows: ROWS,
};

/// Times on the process engine, compared with Linux.
pub(super) const TIMES: SuiteTable = SuiteTable {
    name: "fs-process",
    suite: "fs, process",
    part: "",
    title: "operation, ns",
    columns: TIME_COLUMNS,
    rows: ROWS,
};

/// Times with files in a folder of the host, on the process engine, compared with Linux in the same folder.
/// There are no aims.
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
