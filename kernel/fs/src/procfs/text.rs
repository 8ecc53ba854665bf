//! The texts of the files, in the formats of Linux (`proc(5)`). What is not measured is 0.

use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use super::Facts;
use crate::Time;

/// Bytes of a kibibyte.
const KIB: u64 = 1024;

/// Bytes of a page, in which `statm` counts.
const PAGE: u64 = 4096;

/// Nanoseconds of a hundredth of a second, in which `stat` and `uptime` count.
const TICK_NS: u64 = 10_000_000;

/// A text that is being written. Writing fails without memory.
#[derive(Debug, Default)]
pub(super) struct Text(Vec<u8>);

impl Text {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn add(&mut self, text: &str) -> fmt::Result {
        self.add_bytes(text.as_bytes())
    }

    fn add_bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        self.0.try_reserve(bytes.len()).map_err(|_| fmt::Error)?;
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text)
    }
}

/// Adds texts that end with a zero byte each.
fn add_all(text: &mut Text, texts: impl FnOnce(&mut dyn FnMut(&[u8]))) -> fmt::Result {
    let mut result = Ok(());
    texts(&mut |part| {
        result = result.and_then(|()| text.add_bytes(part)).and_then(|()| text.add("\0"));
    });
    result
}

/// Adds the last name of the program's path.
fn add_name(facts: &dyn Facts, text: &mut Text) -> fmt::Result {
    let mut result = None;
    facts.arguments(&mut |argument| {
        let name = argument.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        result.get_or_insert_with(|| text.add_bytes(name));
    });
    result.unwrap_or(Ok(()))
}

/// Memory in use, in bytes.
fn used(facts: &dyn Facts) -> u64 {
    let (total, free) = facts.memory();
    total.saturating_sub(free)
}

pub(super) fn cpuinfo(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    let count = facts.cpus();
    (0..count).try_for_each(|cpu| {
        write!(
            text,
            "processor\t: {cpu}\nphysical id\t: 0\nsiblings\t: {count}\ncore id\t\t: {cpu}\ncpu cores\t: {count}\n\n"
        )
    })
}

pub(super) fn filesystems(_: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    text.add("nodev\ttmpfs\nnodev\tdevtmpfs\nnodev\tproc\nnodev\tvirtiofs\n")
}

pub(super) fn loadavg(_: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    text.add("0.00 0.00 0.00 1/1 1\n")
}

pub(super) fn meminfo(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    let (total, free) = facts.memory();
    let sizes = [
        ("MemTotal:", total),
        ("MemFree:", free),
        ("MemAvailable:", free),
        ("Buffers:", 0),
        ("Cached:", 0),
        ("SwapTotal:", 0),
        ("SwapFree:", 0),
    ];
    sizes.into_iter().try_for_each(|(name, size)| writeln!(text, "{name:15} {:8} kB", size / KIB))
}

pub(super) fn stat(facts: &dyn Facts, now: Time, text: &mut Text) -> fmt::Result {
    const TIMES: &str = "0 0 0 0 0 0 0 0 0 0";
    writeln!(text, "cpu  {TIMES}")?;
    (0..facts.cpus()).try_for_each(|cpu| writeln!(text, "cpu{cpu} {TIMES}"))?;
    let uptime_s = (facts.uptime_ns() / 1_000_000_000).cast_signed();
    writeln!(text, "btime {}", now.seconds - uptime_s)?;
    text.add("processes 1\nprocs_running 1\nprocs_blocked 0\n")
}

pub(super) fn uptime(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    let ticks = facts.uptime_ns() / TICK_NS;
    writeln!(text, "{}.{:02} 0.00", ticks / 100, ticks % 100)
}

pub(super) fn version(_: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    writeln!(text, "Hermit version {}", env!("CARGO_PKG_VERSION"))
}

pub(super) fn cmdline(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    add_all(text, |add| facts.arguments(add))
}

pub(super) fn comm(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    add_name(facts, text)?;
    text.add("\n")
}

pub(super) fn environ(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    add_all(text, |add| facts.environment(add))
}

/// The path that the program would have, if it were a file: its name in the root.
pub(super) fn exe(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    text.add("/")?;
    add_name(facts, text)
}

pub(super) fn mounts(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    let mut result = Ok(());
    facts.mounts(&mut |path, file_system, is_read_only| {
        let access = if is_read_only { "ro" } else { "rw" };
        result = result.and_then(|()| writeln!(text, "{file_system} {path} {file_system} {access} 0 0"));
    });
    result
}

pub(super) fn process_stat(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    text.add("1 (")?;
    add_name(facts, text)?;
    // State, parent, group, session, terminal, its group, flags, faults (4), times (4), priority, nice, threads, 0, start.
    text.add(") R 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 0")?;
    write!(text, " {} {}", used(facts), used(facts) / PAGE)?;
    // Limit of memory, and 27 fields of addresses, signals, scheduling and codes.
    text.add(" 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n")
}

pub(super) fn process_statm(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    let pages = used(facts) / PAGE;
    writeln!(text, "{pages} {pages} 0 0 0 0 0")
}

pub(super) fn process_status(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    text.add("Name:\t")?;
    add_name(facts, text)?;
    let size = used(facts) / KIB;
    write!(
        text,
        "\nUmask:\t0022\nState:\tR (running)\nTgid:\t1\nPid:\t1\nPPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n\
         VmSize:\t{size:8} kB\nVmRSS:\t{size:8} kB\n"
    )
}
