//! The operations of `xtask/bench/core_bench` that the suites `core` and `fs` measure. The suites, the tables
//! and the pictures use these lists.

use std::time::Duration;

/// Time limit of a guest that measures operations.
pub(super) const TIMEOUT: Duration = Duration::from_secs(120);

/// Memory of a guest that measures operations, both with this kernel and with Linux.
pub(super) const MEMORY: &str = "512M";

/// An operation.
#[derive(Debug)]
pub(crate) struct Operation {
    /// Name in the program's output, in the record and in tables.
    pub(crate) title: &'static str,
    /// Name on the program's command line.
    pub(crate) word: &'static str,
    /// Measurement in instructions.
    pub(crate) count: Count,
    /// Minimum ratio of Linux's time to the guest's time. `None` if the operation is not measured in time.
    pub(crate) ratio: Option<f64>,
}

/// Measurement of an operation in instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// The operation is not measured in instructions, because that would take minutes.
    No,
    /// The operation is measured, but there is no aim.
    Any,
    /// The aim is a maximum of instructions.
    Max(u32),
    /// The operation runs in a separate guest, because it uses up the memory. The figure is a number of
    /// threads, and the aim is a minimum.
    Threads(u32),
}

impl Count {
    /// Returns the aim, if there is one.
    pub(super) const fn aim(self) -> Option<u32> {
        match self {
            Self::No | Self::Any => None,
            Self::Max(aim) | Self::Threads(aim) => Some(aim),
        }
    }
}

const fn operation(title: &'static str, word: &'static str, count: Count, ratio: f64) -> Operation {
    Operation { title, word, count, ratio: Some(ratio) }
}

/// The suite `core`.
pub(crate) const CORE: [Operation; 13] = [
    operation("process::id", "process-id", Count::Max(6), 20.0),
    operation("Instant::now", "now", Count::Max(40), 1.0),
    operation("yield_now, alone", "yield", Count::Max(30), 20.0),
    operation("yield between two threads, both switches", "yield-two", Count::Max(160), 5.0),
    operation("condvar round trip between two threads", "condvar", Count::Max(600), 5.0),
    operation("mpsc round trip", "mpsc", Count::Max(900), 1.0),
    operation("Mutex, uncontended", "mutex", Count::Max(14), 1.0),
    operation("spawn + join, default stack", "spawn", Count::Max(3_000), 10.0),
    operation("spawn + join, 64 KiB stack", "spawn-64k", Count::Max(3_000), 10.0),
    operation("Box of 64 bytes, alloc + free", "box", Count::Max(60), 1.0),
    operation("Vec of 4 KiB, uninitialised", "vec", Count::Max(80), 1.0),
    operation("catch_unwind of a panic, 8 frames above", "catch-unwind", Count::Max(60_000), 1.0),
    Operation {
        title: "threads alive at once",
        word: "threads-alive",
        count: Count::Threads(4_000),
        ratio: None,
    },
];

/// The suite `fs`.
pub(crate) const FS: [Operation; 16] = [
    operation("open + close", "open-close", Count::Max(400), 10.0),
    operation("metadata", "metadata", Count::Max(300), 1.0),
    operation("read 1 B", "read-1", Count::Max(60), 10.0),
    operation("write 1 B", "write-1", Count::Max(60), 10.0),
    operation("seek", "seek", Count::Max(25), 10.0),
    operation("create + unlink", "create-unlink", Count::Max(1_000), 1.0),
    operation("read 4 KiB", "read-4k", Count::Any, 1.0),
    operation("write 4 KiB", "write-4k", Count::Any, 1.0),
    operation("read 1 MiB", "read-1m", Count::Any, 1.0),
    operation("write 1 MiB", "write-1m", Count::Any, 1.0),
    operation("walk of 1 name", "walk-1", Count::Any, 1.0),
    operation("walk of 4 names", "walk-4", Count::Any, 1.0),
    operation("walk of 16 names", "walk-16", Count::Any, 1.0),
    operation("entry of 10,000, listed", "read-dir", Count::No, 1.0),
    operation("file of 10,000, written", "untar", Count::No, 1.0),
    operation("file of 10,000, searched", "grep", Count::No, 1.0),
];

/// The suite `fs` in a folder of the host, compared with Linux in the same folder: latencies, and times for
/// several block sizes.
pub(crate) const MOUNTED: [Operation; 12] = [
    operation("open + close", "open-close", Count::No, NO_AIM),
    operation("metadata", "metadata", Count::No, NO_AIM),
    operation("create + unlink", "create-unlink", Count::No, NO_AIM),
    operation("walk of 4 names", "walk-4", Count::No, NO_AIM),
    operation("read 1 B", "read-1", Count::No, NO_AIM),
    operation("read 4 KiB", "read-4k", Count::No, NO_AIM),
    operation("read 64 KiB", "read-64k", Count::No, NO_AIM),
    operation("read 1 MiB", "read-1m", Count::No, NO_AIM),
    operation("write 1 B", "write-1", Count::No, NO_AIM),
    operation("write 4 KiB", "write-4k", Count::No, NO_AIM),
    operation("write 64 KiB", "write-64k", Count::No, NO_AIM),
    operation("write 1 MiB", "write-1m", Count::No, NO_AIM),
];

/// Minimum ratio of operations without an aim: any ratio passes.
const NO_AIM: f64 = 0.0;

/// Returns the operations as rows of a table. The rows have no aims, because the aims are in the record.
pub(crate) const fn rows<const COUNT: usize>(
    operations: &[Operation; COUNT],
) -> [(&'static str, &'static str); COUNT] {
    let mut rows = [("", ""); COUNT];
    let mut index = 0;
    while index < COUNT {
        rows[index].0 = operations[index].title;
        index += 1;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{CORE, FS, MOUNTED};
    use hermit_toolchain::workspace;
    use std::fs;

    #[test]
    fn program_has_each_operation() {
        let source =
            fs::read_to_string(workspace::root().join("xtask/bench/core_bench/src/main.rs")).unwrap();
        let source: Vec<&str> = source.split_whitespace().collect();
        let source = source.join(" ");
        for operation in CORE.iter().chain(&FS).chain(&MOUNTED) {
            let text = format!("name: \"{}\", title: \"{}\"", operation.word, operation.title);
            assert!(source.contains(&text), "{text}");
        }
    }
}
