//! Statistics of a run (`--stats`).

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::engine::VcpuExit;
use crate::memory::Memory;

/// Names of the counters, in the order of [`counter`].
const NAMES: [&str; 6] =
    ["port reads", "port writes", "register reads", "register writes", "signals", "other exits"];

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
        VcpuExit::PioWrite(..) => 1,
        VcpuExit::MmioRead(..) => 2,
        VcpuExit::MmioWrite(..) => 3,
        VcpuExit::Interrupted => 4,
        VcpuExit::Debug(_) | VcpuExit::Reset | VcpuExit::Failed | VcpuExit::Denied => 5,
    }
}

/// `/proc/self/status`, opened before the sandbox denies it.
#[derive(Debug)]
pub(crate) struct ProcessStatus(Option<File>);

impl ProcessStatus {
    pub(crate) fn open() -> Self {
        Self(File::open("/proc/self/status").ok())
    }

    /// Reports the run time since `started`, the exits, and the peak of resident memory.
    pub(crate) fn report(self, exits: &ExitCounters, memory: &Memory, started: Instant) -> String {
        let mut text = format!("ran for {:.3} s", started.elapsed().as_secs_f64());
        for (name, count) in NAMES.iter().zip(&exits.0) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                // Writing to a string never fails.
                let _: std::fmt::Result = write!(text, ", {count} {name}");
            }
        }
        let status =
            self.0.and_then(|file| io::read_to_string(file.take(MAX_STATUS_SIZE)).ok()).unwrap_or_default();
        if let Some(peak) = field_kb(&status, "VmHWM") {
            let peak = total_peak_kb(peak, &status, memory.resident());
            let _: std::fmt::Result =
                write!(text, "; at most {peak} kB resident, the guest's memory included");
        }
        text
    }
}

/// Value of a field of `/proc/self/status` in kB.
fn field_kb(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

/// Peak of resident memory of this process and of a guest's process that shares `shared` bytes with it, in kB. The
/// shared memory is counted once: it never shrinks, and is nearly all that the guest's process has.
fn total_peak_kb(peak: u64, status: &str, shared: Option<u64>) -> u64 {
    shared
        .map_or(peak, |shared| peak.saturating_sub(field_kb(status, "RssShmem").unwrap_or(0)) + shared / 1024)
}

#[cfg(test)]
mod tests {
    use super::{field_kb, total_peak_kb};

    const STATUS: &str = "Name:\tuhyve\nVmHWM:\t    9000 kB\nRssShmem:\t    1000 kB\nThreads:\t4\n";

    #[test]
    fn shared_memory_is_counted_once() {
        assert_eq!(field_kb(STATUS, "VmHWM"), Some(9000));
        assert_eq!((field_kb(STATUS, "Threads"), field_kb(STATUS, "Vm")), (None, None));
        assert_eq!(total_peak_kb(9000, STATUS, None), 9000);
        assert_eq!(total_peak_kb(9000, STATUS, Some(3000 << 10)), 11000);
    }
}
