//! The texts of the files, in the formats of Linux (`proc(5)`).
//!
//! A file is formatted once, when it is opened: each file has a function that writes its text from the
//! [`Facts`]. Fields of Linux's formats that this kernel does not measure are 0, so that parsers made for
//! Linux find every field at its place. If a fact is not available, opening the file fails with the error of
//! the fact.

use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use hermit_interface::Errno;

use super::{Facts, Mapping, MappingKind};
use crate::interface::Time;

/// Bytes of a kibibyte.
const KIB: u64 = 1024;

/// Bytes of a page, the unit of `statm`.
const PAGE: u64 = 4096;

/// Nanoseconds of a hundredth of a second, the unit of `stat` and `uptime`.
const TICK_NS: u64 = 10_000_000;

/// A text that is being written. Writing fails if there is no memory, or if a fact is not known.
#[derive(Debug, Default)]
pub(super) struct Text {
    bytes: Vec<u8>,
    /// Error of a fact that is not available.
    error: Option<Errno>,
}

impl Text {
    /// Returns the text that `write` writes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the error of a fact that is not known.
    pub(super) fn written(write: impl FnOnce(&mut Self) -> fmt::Result) -> Result<Vec<u8>, Errno> {
        let mut text = Self::default();
        match write(&mut text) {
            Ok(()) => Ok(text.bytes),
            Err(fmt::Error) => Err(text.error.unwrap_or(Errno::ENOMEM)),
        }
    }

    /// Returns a fact. If it is not available, records the error.
    fn known<V>(&mut self, fact: Result<V, Errno>) -> Result<V, fmt::Error> {
        fact.map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }

    pub(super) fn add(&mut self, text: &str) -> fmt::Result {
        self.add_bytes(text.as_bytes())
    }

    fn add_bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        self.bytes.try_reserve(bytes.len()).map_err(|_| fmt::Error)?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text)
    }
}

/// Returns the target of the link of an object without a path, as on Linux: `type:[number]`.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn numbered(name: &str, number: u64) -> Result<Vec<u8>, Errno> {
    Text::written(|text| write!(text, "{name}:[{number}]"))
}

/// Adds texts, each followed by a zero byte.
fn add_all(text: &mut Text, texts: impl FnOnce(&mut dyn FnMut(&[u8]))) -> fmt::Result {
    let mut result = Ok(());
    texts(&mut |part| {
        result = result.and_then(|()| text.add_bytes(part)).and_then(|()| text.add("\0"));
    });
    result
}

/// Adds the last component of the program's path.
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

/// Returns the time for which CPUs were idle, in nanoseconds, summed over all CPUs.
fn idle_ns(facts: &dyn Facts) -> u64 {
    (0..facts.cpus()).map(|cpu| facts.idle_ns(cpu)).sum()
}

/// Returns the time for which CPUs ran threads, in nanoseconds, summed over all CPUs. All of it counts as
/// user time of the program, since the kernel is linked into the program.
fn busy_ns(facts: &dyn Facts) -> u64 {
    (u64::from(facts.cpus()) * facts.uptime_ns()).saturating_sub(idle_ns(facts))
}

/// Adds a line of `/proc/stat`. Its columns are the times in user mode, with low priority, in the kernel and
/// idle, and six other times that are always 0 here.
fn add_times(text: &mut Text, name: fmt::Arguments<'_>, busy_ns: u64, idle_ns: u64) -> fmt::Result {
    writeln!(text, "{name} {} 0 0 {} 0 0 0 0 0 0", busy_ns / TICK_NS, idle_ns / TICK_NS)
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

pub(super) fn loadavg(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    writeln!(text, "0.00 0.00 0.00 1/{} 1", facts.threads())
}

pub(super) fn meminfo(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    let (total, free) = facts.memory();
    let sizes = [
        ("MemTotal:", total),
        ("MemFree:", free),
        ("MemAvailable:", facts.available_memory()),
        ("Buffers:", 0),
        ("Cached:", 0),
        ("SwapTotal:", 0),
        ("SwapFree:", 0),
    ];
    sizes.into_iter().try_for_each(|(name, size)| writeln!(text, "{name:15} {:8} kB", size / KIB))
}

pub(super) fn stat(facts: &dyn Facts, now: Time, text: &mut Text) -> fmt::Result {
    add_times(text, format_args!("cpu "), busy_ns(facts), idle_ns(facts))?;
    let uptime_ns = facts.uptime_ns();
    (0..facts.cpus()).try_for_each(|cpu| {
        let idle_ns = facts.idle_ns(cpu);
        add_times(text, format_args!("cpu{cpu}"), uptime_ns.saturating_sub(idle_ns), idle_ns)
    })?;
    let uptime_s = (uptime_ns / 1_000_000_000).cast_signed();
    writeln!(text, "btime {}", now.seconds - uptime_s)?;
    text.add("processes 1\nprocs_running 1\nprocs_blocked 0\n")
}

pub(super) fn uptime(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    let [up, idle] = [facts.uptime_ns(), idle_ns(facts)].map(|time_ns| time_ns / TICK_NS);
    writeln!(text, "{}.{:02} {}.{:02}", up / 100, up % 100, idle / 100, idle % 100)
}

pub(super) fn version(_: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    writeln!(text, "Hermit version {}", env!("CARGO_PKG_VERSION"))
}

pub(super) fn hostname(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    facts.hostname(&mut |name| writeln!(text, "{name}"))
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

/// Adds the path of the program, as if the program were a file in the root directory.
pub(super) fn exe(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    text.add("/")?;
    add_name(facts, text)
}

/// Adds a path in the format of `/proc/mounts`: characters that separate fields are written in octal.
fn add_escaped(text: &mut Text, path: &[u8]) -> fmt::Result {
    path.iter().try_for_each(|byte| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => write!(text, "\\{byte:03o}"),
        _ => text.add_bytes(&[*byte]),
    })
}

pub(super) fn mounts(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    text.known(facts.mounts())?.iter().try_for_each(|mount| {
        let access = if mount.is_read_only { "ro" } else { "rw" };
        write!(text, "{} ", mount.type_name)?;
        add_escaped(text, &mount.path)?;
        writeln!(text, " {} {access} 0 0", mount.type_name)
    })
}

/// The parts of the address space. None of them maps a file, so offset, device and inode are 0.
pub(super) fn maps(facts: &dyn Facts, time: Time, text: &mut Text) -> fmt::Result {
    let mappings = text.known(facts.mappings())?;
    mappings.iter().try_for_each(|mapping| add_mapping(facts, time, text, mapping))
}

fn add_mapping(facts: &dyn Facts, time: Time, text: &mut Text, mapping: &Mapping) -> fmt::Result {
    let Mapping { start, end, access, kind } = mapping;
    write!(text, "{start:08x}-{end:08x} {access} 00000000 00:00 0 ")?;
    match kind {
        MappingKind::Image => exe(facts, time, text)?,
        MappingKind::Heap => text.add("[heap]")?,
        MappingKind::Stack => text.add("[stack]")?,
    }
    text.add("\n")
}

pub(super) fn process_stat(facts: &dyn Facts, _: Time, text: &mut Text) -> fmt::Result {
    text.add("1 (")?;
    add_name(facts, text)?;
    // State, parent, group, session, terminal, its group, flags, faults (4), times (4), priority, nice,
    // threads, 0, start.
    let (busy, threads) = (busy_ns(facts) / TICK_NS, facts.threads());
    write!(text, ") R 0 1 1 0 -1 0 0 0 0 0 {busy} 0 0 0 20 0 {threads} 0 0")?;
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
         VmSize:\t{size:8} kB\nVmRSS:\t{size:8} kB\nThreads:\t{}\n",
        facts.threads()
    )
}
