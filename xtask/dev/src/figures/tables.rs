//! The tables of documents. Each table is described by the figures of the record that it shows, and their
//! format.
//!
//! A [`SuiteTable`] describes a table: its name in markers of documents, the suite in the record, and the
//! paths of columns and rows in the suite's JSON object. [`markdown`] looks the figures up and formats them.
//! A row or column without figures is left out, for example if the machine has no KVM. The reverse is an
//! error: if a table does not show a figure that the record has, the figure would go unnoticed. The
//! descriptions here also contain the aims that the suites do not record.

mod files;
mod lossy_path;
mod mixed;
mod plain;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::markdown::{lines, number, wrap};
use super::record::FigureRecord;
use crate::bench::operations::{CORE, rows};

/// A table with a row for each figure of a suite.
#[derive(Debug)]
struct SuiteTable {
    /// Name in markers.
    name: &'static str,
    /// Suite in the record.
    suite: &'static str,
    /// Object of the suite's figures that has the rows; empty if the figures are the rows themselves.
    part: &'static str,
    /// Title of the first column.
    title: &'static str,
    /// Title of each further column, and the path of its value within a row. `/` separates the keys of a
    /// path.
    columns: &'static [(&'static str, &'static str)],
    /// Name of each row in the record, and its aim as text. The text is empty if there is no aim, or if the
    /// suite records the aim.
    rows: &'static [(&'static str, &'static str)],
}

/// Columns of a table of the suite `net`. A ratio above 1 means that the first system is better.
const NET_COLUMNS: &[(&str, &str)] = &[
    ("uhyve -p", "uhyve -p/median"),
    ("uhyve", "uhyve/median"),
    ("QEMU", "QEMU/median"),
    ("Linux", "Linux/median"),
    ("no TSO", "no TSO/median"),
    ("veth", "veth/median"),
    ("loopback", "loopback/median"),
    ("podman", "podman/median"),
    ("slirp", "slirp/median"),
    ("pasta", "pasta/median"),
    ("QEMU : Linux", "ratios/QEMU:Linux/ratio"),
    ("aim", "ratios/QEMU:Linux/aim"),
    ("QEMU : no TSO", "ratios/QEMU:no TSO/ratio"),
    ("uhyve : veth", "ratios/uhyve:veth/ratio"),
    ("aim", "ratios/uhyve:veth/aim"),
    ("-p : loopback", "ratios/-p:loopback/ratio"),
];

/// Columns of a suite in nanoseconds, which compares the process engine with Linux.
const TIME_COLUMNS: &[(&str, &str)] = &[
    ("this kernel", "ours"),
    ("Linux, 1 CPU", "linux"),
    ("ratio", "ratio"),
    ("aim", "aim"),
    ("Linux, all CPUs", "linux, all CPUs"),
];

/// Rows of throughput: sizes of messages.
const MESSAGES: &[(&str, &str)] =
    &[("64 B", ""), ("1 KiB", ""), ("16 KiB", ""), ("64 KiB", ""), ("1 MiB", "")];

/// Returns every table except the README's, which takes rows of several suites.
fn tables() -> impl Iterator<Item = &'static SuiteTable> {
    TABLES.iter().chain(&mixed::MIXED)
}

const TABLES: [SuiteTable; 24] = [
    SuiteTable {
        name: "boot",
        suite: "boot",
        part: "",
        title: "figure",
        columns: &[("measured", "")],
        rows: &[
            ("hello_world, stripped (bytes)", "below 250,000"),
            ("minimum memory of hello_world (MiB)", "8"),
            ("instructions, reset to main, microvm", "below 10 million"),
            ("instructions, reset to main, pc", ""),
            ("instructions, reset to main, pc, 4 GiB", "as with 128 MiB"),
            ("exec to the loader's first output, microvm (us)", ""),
            ("exec to the program's first output, microvm (us)", "below 80,000"),
            ("exec to the loader's first output, pc (us)", ""),
            ("exec to the program's first output, pc (us)", ""),
        ],
    },
    SuiteTable {
        name: "bursts",
        suite: "bursts",
        part: "",
        title: "clients at once",
        columns: &[("failed", "failed"), ("p50, ms", "p50_ms"), ("p99, ms", "p99_ms"), ("max, ms", "max_ms")],
        rows: &[
            ("200 clients, Linux", ""),
            ("200 clients, process", ""),
            ("200 clients, KVM", ""),
            ("200 clients, QEMU", ""),
            ("1000 clients, Linux", ""),
            ("1000 clients, process", ""),
            ("1000 clients, KVM", ""),
            ("1000 clients, QEMU", ""),
            ("5000 clients, Linux", ""),
            ("5000 clients, process", ""),
            ("5000 clients, KVM", ""),
            ("5000 clients, QEMU", ""),
        ],
    },
    SuiteTable {
        name: "core",
        suite: "core",
        part: "",
        title: "operation, instructions",
        columns: &[("this kernel", "ours"), ("Linux guest", "linux"), ("aim", "aim")],
        rows: &rows(&CORE),
    },
    SuiteTable {
        name: "core-process",
        suite: "core, process",
        part: "",
        title: "operation, ns",
        columns: TIME_COLUMNS,
        rows: &rows(&CORE),
    },
    files::INSTRUCTIONS,
    files::TIMES,
    files::MOUNTED_TIMES,
    SuiteTable {
        name: "heap",
        suite: "heap",
        part: "",
        title: "threads and CPUs",
        columns: &[("1", "1"), ("2", "2"), ("4", "4")],
        rows: &[
            ("own blocks: operations per millisecond", ""),
            ("own blocks: shared locks per operation", ""),
            ("handed over: operations per millisecond", ""),
            ("handed over: shared locks per operation", ""),
        ],
    },
    SuiteTable {
        name: "starts",
        suite: "starts",
        part: "",
        title: "exec to the first output of hello_world, µs",
        columns: &[("minimum", "min"), ("median", "median"), ("90 %", "p90")],
        rows: &[("Linux", ""), ("uhyve, process", ""), ("uhyve, KVM", ""), ("QEMU, microvm", "")],
    },
    SuiteTable {
        name: "hypervisor",
        suite: "hypervisor",
        part: "",
        title: "figure",
        columns: &[("uhyve, KVM", "uhyve, KVM"), ("QEMU, KVM", "QEMU, KVM"), ("QEMU, TCG", "QEMU, TCG")],
        rows: &[
            ("exec to the guest's first instruction (us)", ""),
            ("exec to the kernel's first instruction (us)", ""),
            ("exec to the program's first output (us)", ""),
            ("exec to exit (us)", ""),
            ("Rss without guest memory (KiB)", ""),
            ("Pss without guest memory (KiB)", ""),
            ("Rss of guest memory (KiB)", ""),
            ("threads", ""),
            ("open file descriptors", ""),
            ("executable, stripped (bytes)", ""),
        ],
    },
    SuiteTable {
        name: "hypervisor-process",
        suite: "hypervisor, process",
        part: "",
        title: "figure",
        columns: &[("in uhyve", "uhyve"), ("on Linux", "linux")],
        rows: &[
            ("exec to the program's first output, median (us)", "10,000"),
            ("exec to the program's first output, minimum (us)", ""),
            ("exec to exit, median (us)", ""),
            ("100 at once: first exec to last exit (us)", "200,000"),
            ("1,000 in a row: first exec to last exit (us)", "4,000,000"),
            ("Pss of all processes (KiB)", "8,192 more than Linux"),
            ("Pss of the uhyve process (KiB)", ""),
            ("100 at once: Pss of all processes (KiB)", ""),
        ],
    },
    SuiteTable {
        name: "net-host-to-guest",
        suite: "net",
        part: "host to guest (MB/s)",
        title: "host to guest, MB/s",
        columns: NET_COLUMNS,
        rows: MESSAGES,
    },
    SuiteTable {
        name: "net-guest-to-host",
        suite: "net",
        part: "guest to host (MB/s)",
        title: "guest to host, MB/s",
        columns: NET_COLUMNS,
        rows: MESSAGES,
    },
    SuiteTable {
        name: "net-round-trip",
        suite: "net",
        part: "round-trip time (us)",
        title: "round-trip time, µs",
        columns: NET_COLUMNS,
        rows: &[("1 B, p50", ""), ("1 B, p99", ""), ("16 KiB, p50", ""), ("16 KiB, p99", "")],
    },
    SuiteTable {
        name: "net-rates",
        suite: "net",
        part: "per second",
        title: "per second",
        columns: NET_COLUMNS,
        rows: &[
            ("connections", ""),
            ("HTTP requests", ""),
            ("HTTP, 1 connection", ""),
            ("HTTP, 64 connections", ""),
        ],
    },
    SuiteTable {
        name: "net-start",
        suite: "net",
        part: "from exec (ms)",
        title: "from exec, ms",
        columns: NET_COLUMNS,
        rows: &[("first ping reply", ""), ("first HTTP byte", "")],
    },
    plain::PLAIN,
    lossy_path::FROM_GUEST,
    lossy_path::TO_GUEST,
    lossy_path::AIMS,
    lossy_path::COMPLETION,
    lossy_path::FAIRNESS,
    SuiteTable {
        name: "web-rates",
        suite: "web",
        part: "requests per second",
        title: "requests per second",
        columns: NET_COLUMNS,
        rows: &[("16 connections", ""), ("1,000 connections", "")],
    },
    SuiteTable {
        name: "web-latency",
        suite: "web",
        part: "response time (us)",
        title: "response time, µs",
        columns: NET_COLUMNS,
        rows: &[
            ("16 connections, p50", ""),
            ("16 connections, p99", ""),
            ("1,000 connections, p50", ""),
            ("1,000 connections, p99", ""),
        ],
    },
];

/// A row of the README's table: its name, a suite, the path of this system's figure, and the path of the
/// figure with which it is compared, that of the system `other`.
#[derive(Debug)]
struct Headline {
    name: &'static str,
    suite: &'static str,
    ours: &'static [&'static str],
    other: &'static str,
    theirs: &'static [&'static str],
}

/// The table `readme`.
const HEADLINES: [Headline; 7] = [
    Headline {
        name: "image of hello_world, stripped (bytes)",
        suite: "boot",
        ours: &["hello_world, stripped (bytes)"],
        other: "",
        theirs: &[],
    },
    Headline {
        name: "exec to the program's first output, in a process (µs)",
        suite: "hypervisor, process",
        ours: &["exec to the program's first output, median (us)", "uhyve"],
        other: "the same program on Linux",
        theirs: &["exec to the program's first output, median (us)", "linux"],
    },
    Headline {
        name: "memory of a running program, in a process (Pss, KiB)",
        suite: "hypervisor, process",
        ours: &["Pss of all processes (KiB)", "uhyve"],
        other: "the same program on Linux",
        theirs: &["Pss of all processes (KiB)", "linux"],
    },
    Headline {
        name: "condvar round trip between two threads (instructions)",
        suite: "core",
        ours: &["condvar round trip between two threads", "ours"],
        other: "a Linux guest",
        theirs: &["condvar round trip between two threads", "linux"],
    },
    Headline {
        name: "echo beside a computing thread, 1 CPU, in a process (a second)",
        suite: "mixed",
        ours: &["CPUs 1, computing threads 1", "echo: rounds a second", "ours"],
        other: "the same program on Linux",
        theirs: &["CPUs 1, computing threads 1", "echo: rounds a second", "linux"],
    },
    Headline {
        name: "HTTP requests per second, in a process, at a tap",
        suite: "net",
        ours: &["per second", "HTTP requests", "uhyve", "median"],
        other: "a process of Linux behind veth",
        theirs: &["per second", "HTTP requests", "veth", "median"],
    },
    Headline {
        name: "HTTP requests per second, in a process, behind `-p`",
        suite: "net",
        ours: &["per second", "HTTP requests", "uhyve -p", "median"],
        other: "a process of Linux at the loopback",
        theirs: &["per second", "HTTP requests", "loopback", "median"],
    },
];

/// Returns the table with this name as Markdown, followed by a text that says how it was measured.
pub(super) fn markdown(name: &str, record: &FigureRecord) -> Result<String> {
    if name == "readme" {
        return Ok(headlines(record));
    }
    let Some(table) = tables().find(|table| table.name == name) else {
        let names: Vec<_> = tables().map(|table| table.name).collect();
        bail!("there is no table `{name}`: the tables are readme and {}", names.join(", "));
    };
    let Some(figures) = record.figures(table.suite) else {
        return Ok(wrap(&format!(
            "Not recorded: `cargo xtask bench --record` records the suite \"{}\".",
            table.suite
        )));
    };
    let rows = if table.part.is_empty() { Some(figures) } else { figures.get(table.part) };
    let rows = rows.with_context(|| format!("the suite {} has no {:?}", table.suite, table.part))?;
    table.check_rows(rows)?;
    let conditions = record.conditions(table.suite).unwrap_or_default();
    Ok(format!("{}\n{}", table.markdown(rows), wrap(&conditions)))
}

impl SuiteTable {
    /// Fails if there is a figure that the table does not show.
    fn check_rows(&self, rows: &Value) -> Result<()> {
        let recorded = rows.as_object().into_iter().flat_map(|rows| rows.iter());
        // Numbers and objects are figures. Other values describe the images.
        let is_figure = |value: &Value| value.is_number() || value.is_object();
        for (name, _) in recorded.filter(|(_, value)| is_figure(value)) {
            if !self.rows.iter().any(|(row, _)| row == name) {
                bail!("the table {} has no row {name:?}, which was measured", self.name);
            }
        }
        Ok(())
    }

    /// Returns the rows that the record has. The rows of a platform are missing if the platform did not work
    /// on the machine.
    fn measured(&self, rows: &Value) -> impl Iterator<Item = &(&str, &str)> {
        self.rows.iter().filter(|(name, _)| rows.get(name).is_some())
    }

    fn markdown(&self, rows: &Value) -> String {
        let has_aims = self.rows.iter().any(|(_, aim)| !aim.is_empty());
        let value = |row: &str, path: &str| at(rows.get(row)?, &path.split('/').collect::<Vec<_>>());
        // A column without any figure is left out.
        let columns: Vec<_> = self
            .columns
            .iter()
            .filter(|(_, path)| self.rows.iter().any(|(row, _)| value(row, path).is_some()))
            .collect();
        let titles = columns.iter().map(|(title, _)| (*title).to_owned());
        let mut cells = vec![[self.title.to_owned()].into_iter().chain(titles).collect::<Vec<_>>()];
        for (name, _) in self.measured(rows) {
            let figures = columns.iter().map(|(_, path)| value(name, path).map_or_else(String::new, number));
            cells.push([(*name).to_owned()].into_iter().chain(figures).collect());
        }
        if has_aims {
            let aims = ["aim"].into_iter().chain(self.measured(rows).map(|(_, aim)| *aim));
            cells.iter_mut().zip(aims).for_each(|(row, aim)| row.push(aim.to_owned()));
        }
        lines(&cells)
    }
}

fn headlines(record: &FigureRecord) -> String {
    let mut cells = vec![["figure", "this system", "compared with", ""].map(str::to_owned).to_vec()];
    for Headline { name, suite, ours, other, theirs } in HEADLINES {
        let figures = record.figures(suite);
        let of = |path: &[&str]| figures.and_then(|figures| at(figures, path)).map(number);
        let ours = of(ours).unwrap_or_else(|| "not recorded".to_owned());
        let theirs = if theirs.is_empty() { String::new() } else { of(theirs).unwrap_or_default() };
        cells.push(vec![name.to_owned(), ours, theirs, other.to_owned()]);
    }
    lines(&cells)
}

/// Returns the number at a path of keys. An empty key stands for the value itself.
fn at(value: &Value, path: &[&str]) -> Option<f64> {
    let mut keys = path.iter().filter(|key| !key.is_empty());
    keys.try_fold(value, |value, key| value.get(key))?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::super::record::{Conditions, FigureRecord};
    use super::{markdown, tables};
    use serde_json::json;

    #[test]
    fn table_shows_each_recorded_figure() {
        let mut record = FigureRecord::default();
        let row = json!({ "ours": 848.4, "linux": 10_247.0, "aim": 600 });
        let figures = json!({ "condvar round trip between two threads": row });
        record.set("core", &figures, &Conditions::default());
        let text = markdown("core", &record).unwrap();
        assert!(text.contains("| condvar round trip between two threads | 848 | 10,247 | 600 |\n"), "{text}");
        assert!(markdown("readme", &record).unwrap().contains("| 848 | 10,247 | a Linux guest |"));
        let figures = json!({ "200 clients, QEMU": { "failed": 0, "p50_ms": 77.1, "max_ms": 1038.9 } });
        record.set("bursts", &figures, &Conditions::default());
        let text = markdown("bursts", &record).unwrap();
        assert!(text.contains("| 200 clients, QEMU | 0 | 77.1 | 1,039 |\n"), "{text}");
        assert!(!text.contains("KVM |"), "{text}");
        record.set("core", &json!({ "a new figure": { "ours": 1 } }), &Conditions::default());
        assert!(markdown("core", &record).is_err());
    }

    #[test]
    fn suite_without_figures_is_not_recorded() {
        for table in tables() {
            assert!(markdown(table.name, &FigureRecord::default()).unwrap().starts_with("Not recorded"));
        }
        assert!(markdown("unknown", &FigureRecord::default()).is_err());
    }
}
