//! Statistics of a run (`--stats`, `--report`).

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::engine::VcpuExit;
use crate::memory::Memory;

/// Names of the counters, by the index that [`counter`] returns.
const NAMES: [&str; 7] =
    ["port reads", "port writes", "register reads", "register writes", "signals", "bus locks", "other exits"];

/// Upper bound for the size of `/proc/self/status` in bytes.
const MAX_STATUS_SIZE: u64 = 1 << 16;

/// Number of vCPU exits by kind.
#[derive(Debug, Default)]
pub struct ExitCounters([AtomicU64; NAMES.len()]);

impl ExitCounters {
    /// Counts an exit.
    pub(crate) fn count(&self, exit: &VcpuExit<'_>) {
        self.0[counter(exit)].fetch_add(1, Ordering::Relaxed);
    }
}

/// Index of the counter for an exit.
const fn counter(exit: &VcpuExit<'_>) -> usize {
    match exit {
        VcpuExit::PioRead(..) => 0,
        VcpuExit::PioWrite(..) | VcpuExit::PioTryWrite { .. } => 1,
        VcpuExit::MmioRead(..) => 2,
        VcpuExit::MmioWrite(..) => 3,
        VcpuExit::Interrupted => 4,
        VcpuExit::BusLock => 5,
        VcpuExit::Debug(_) | VcpuExit::Reset | VcpuExit::Failed | VcpuExit::Denied => 6,
    }
}

/// `/proc/self/status`, opened before the sandbox denies it.
#[derive(Debug)]
pub(crate) struct ProcessStatus(Option<File>);

impl ProcessStatus {
    /// Opens the file if statistics are `wanted`. If this fails, the statistics lack the peak of memory.
    pub(crate) fn open(wanted: bool) -> Self {
        Self(wanted.then(|| File::open("/proc/self/status").ok()).flatten())
    }

    /// Returns the statistics of a run that has begun at `started`.
    pub(crate) fn statistics(self, exits: &ExitCounters, memory: &Memory, started: Instant) -> Statistics {
        let status =
            self.0.and_then(|file| io::read_to_string(file.take(MAX_STATUS_SIZE)).ok()).unwrap_or_default();
        let peak = field_kb(&status, "VmHWM");
        Statistics {
            run_time: started.elapsed(),
            exits: exits.0.each_ref().map(|count| count.load(Ordering::Relaxed)),
            peak_kb: peak.map(|peak| total_peak_kb(peak, &status, memory.peak())),
            returned_kb: memory.returned() / 1024,
        }
    }
}

/// Statistics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statistics {
    run_time: Duration,
    exits: [u64; NAMES.len()],
    /// Peak of resident memory in kB, including the guest's; `None` if the host does not report it.
    peak_kb: Option<u64>,
    /// Memory that the guest has returned to the host, in kB.
    returned_kb: u64,
}

impl Statistics {
    /// Returns the statistics as a text for users.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("ran for {:.3} s", self.run_time.as_secs_f64());
        for (name, count) in NAMES.iter().zip(self.exits).filter(|(_, count)| *count > 0) {
            // Writing to a string never fails.
            let _: std::fmt::Result = write!(text, ", {count} {name}");
        }
        if let Some(peak) = self.peak_kb {
            let _: std::fmt::Result =
                write!(text, "; at most {peak} kB resident, the guest's memory included");
        }
        if self.returned_kb > 0 {
            let _: std::fmt::Result =
                write!(text, "; the guest has returned {} kB to the host", self.returned_kb);
        }
        text
    }
}

/// Returns the JSON of the report (`--report`): the reason why the run has ended, uhyve's exit status, and
/// the statistics. Unknown values are null.
pub(crate) fn json(reason: &str, status: Option<u8>, statistics: Option<&Statistics>) -> String {
    let exits = statistics.map(|statistics| {
        let names = NAMES.iter().map(|name| name.replace(' ', "_"));
        names.zip(statistics.exits.map(serde_json::Value::from)).collect::<serde_json::Map<_, _>>()
    });
    let report = serde_json::json!({
        "reason": reason,
        "status": status,
        "run_time_seconds": statistics.map(|statistics| statistics.run_time.as_secs_f64()),
        "exits": exits,
        "returned_memory_bytes": statistics.map(|statistics| statistics.returned_kb * 1024),
        "peak_memory_bytes": statistics.and_then(|statistics| statistics.peak_kb).map(|peak| peak * 1024),
    });
    format!("{report:#}")
}

/// Returns the value of a field of `/proc/self/status` in kB.
fn field_kb(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

/// Returns the peak of resident memory of this process and the guest's process together, in kB. `shared` is
/// the peak of the guest memory in bytes, which both share, so it is counted only once. The guest's process
/// has hardly any other memory.
fn total_peak_kb(peak: u64, status: &str, shared: Option<u64>) -> u64 {
    shared
        .map_or(peak, |shared| peak.saturating_sub(field_kb(status, "RssShmem").unwrap_or(0)) + shared / 1024)
}

#[cfg(test)]
mod tests {
    use super::{Statistics, field_kb, json, total_peak_kb};
    use std::time::Duration;

    impl Statistics {
        /// Returns statistics with the longest possible text.
        pub(crate) const fn maximum() -> Self {
            Self {
                run_time: Duration::from_nanos(u64::MAX),
                exits: [u64::MAX; 7],
                peak_kb: Some(u64::MAX >> 10),
                returned_kb: u64::MAX >> 10,
            }
        }
    }

    const STATUS: &str = "Name:\tuhyve\nVmHWM:\t    9000 kB\nRssShmem:\t    1000 kB\nThreads:\t4\n";

    #[test]
    fn json_has_reason_status_exits_and_peak() {
        let run_time = Duration::from_millis(1500);
        let statistics =
            Statistics { run_time, exits: [1, 2, 3, 4, 5, 6, 7], peak_kb: Some(10), returned_kb: 3 };
        let text = |statistics| json("exited", Some(3), Some(statistics));
        let json: serde_json::Value = serde_json::from_str(&text(&statistics)).unwrap();
        assert_eq!((&json["reason"], &json["status"]), (&"exited".into(), &3.into()));
        assert_eq!((&json["exits"]["port_writes"], &json["exits"]["bus_locks"]), (&2.into(), &6.into()));
        assert_eq!((&json["peak_memory_bytes"], &json["run_time_seconds"]), (&10240.into(), &1.5.into()));
        assert_eq!(json["returned_memory_bytes"], 3072);
        assert!(statistics.text().ends_with("; the guest has returned 3 kB to the host"));
        let unknown = Statistics { peak_kb: None, ..statistics };
        assert!(text(&unknown).contains("\"peak_memory_bytes\": null"));
    }

    #[test]
    fn shared_memory_is_counted_once() {
        assert_eq!(field_kb(STATUS, "VmHWM"), Some(9000));
        assert_eq!((field_kb(STATUS, "Threads"), field_kb(STATUS, "Vm")), (None, None));
        assert_eq!(total_peak_kb(9000, STATUS, None), 9000);
        assert_eq!(total_peak_kb(9000, STATUS, Some(3000 << 10)), 11000);
    }
}
