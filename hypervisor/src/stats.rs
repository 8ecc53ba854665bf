//! What a guest did and what it cost.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::engine::Exit;
use crate::machine::Machine;
use crate::memory::Memory;

/// Kinds of exits, in the order of [`kind`].
const KINDS: [&str; 6] =
    ["port reads", "port writes", "register reads", "register writes", "signals", "other exits"];

/// More than what the host says about a process, in bytes.
const MAX_STATUS: u64 = 1 << 16;

/// How often processors stopped running, by reason.
#[derive(Debug, Default)]
pub struct Exits([AtomicU64; KINDS.len()]);

impl Exits {
    /// Counts one.
    pub(crate) fn count(&self, exit: &Exit<'_>) {
        self.0[kind(exit)].fetch_add(1, Ordering::Relaxed);
    }
}

const fn kind(exit: &Exit<'_>) -> usize {
    match exit {
        Exit::PortRead(..) => 0,
        Exit::PortWrite(..) => 1,
        Exit::Read(..) => 2,
        Exit::Write(..) => 3,
        Exit::Interrupted => 4,
        Exit::Debug(_) | Exit::Reset | Exit::Failed | Exit::Denied => 5,
    }
}

/// What the host says about this process, opened while files can be opened.
#[derive(Debug)]
pub(crate) struct Account(Option<File>);

impl Account {
    pub(crate) fn open() -> Self {
        Self(File::open("/proc/self/status").ok())
    }

    /// A text for people.
    pub(crate) fn report(self, machine: &Machine, memory: &Memory, started: Instant) -> String {
        let mut text = format!("ran for {:.3} s", started.elapsed().as_secs_f64());
        for (name, count) in KINDS.iter().zip(&machine.exits().0) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                // A string takes everything.
                let _: std::fmt::Result = write!(text, ", {count} {name}");
            }
        }
        let status =
            self.0.and_then(|file| io::read_to_string(file.take(MAX_STATUS)).ok()).unwrap_or_default();
        if let Some(peak) = field(&status, "VmHWM") {
            let peak = with_shared(peak, &status, memory.resident());
            let _: std::fmt::Result =
                write!(text, "; at most {peak} kB resident, the guest's memory included");
        }
        text
    }
}

/// A number of kB in what the host says.
fn field(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

/// The peak of this process and of a guest's that shares `shared` bytes of memory with it, and has hardly more. Such memory only
/// grows.
fn with_shared(peak: u64, status: &str, shared: Option<u64>) -> u64 {
    shared.map_or(peak, |shared| peak.saturating_sub(field(status, "RssShmem").unwrap_or(0)) + shared / 1024)
}

#[cfg(test)]
mod tests {
    use super::{field, with_shared};

    const STATUS: &str = "Name:\tuhyve\nVmHWM:\t    9000 kB\nRssShmem:\t    1000 kB\nThreads:\t4\n";

    #[test]
    fn the_guests_memory_counts_once() {
        assert_eq!(field(STATUS, "VmHWM"), Some(9000));
        assert_eq!((field(STATUS, "Threads"), field(STATUS, "Vm")), (None, None));
        assert_eq!(with_shared(9000, STATUS, None), 9000);
        assert_eq!(with_shared(9000, STATUS, Some(3000 << 10)), 11000);
    }
}
