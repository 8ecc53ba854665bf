//! What a guest did and what it cost.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::engine::Exit;
use crate::machine::Machine;

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
    pub(crate) fn report(self, machine: &Machine, started: Instant) -> String {
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
        if let Some(peak) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) {
            let _: std::fmt::Result =
                write!(text, "; at most {} resident, the guest's memory included", peak.trim());
        }
        text
    }
}
