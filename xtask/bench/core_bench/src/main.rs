//! Measures the cost of the system's core operations: threads, locks, clocks, memory and files.
//!
//! The output has a line `operation<TAB>ticks` for each operation. Under QEMU with `-icount shift=0`, the
//! time-stamp counter counts instructions, so ticks are instructions per operation. `cargo xtask bench core`
//! runs the program in this way, in a guest of this kernel and in a Linux guest. The first line is the number
//! of ticks per instruction: 1.000 under icount.
//!
//! On real hardware, ticks are a unit of time, and the option `--nanoseconds` in front of the names converts
//! them. There, run the program on one CPU, for example with `taskset -c 0`.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod counter;
mod files;
mod panics;
mod scratch;
mod single;
mod switch;
mod threads;
mod trees;

use std::env;
use std::process::ExitCode;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Option that prints nanoseconds instead of ticks.
const NANOSECONDS: &str = "--nanoseconds";

/// Ticks per operation, or the reason why the operation could not be measured.
type Ticks = Result<f64, String>;

/// An operation that is measured.
#[derive(Debug)]
struct Operation {
    /// Name on the command line.
    name: &'static str,
    /// Name in the output.
    title: &'static str,
    /// Measures the operation.
    measure: fn() -> Ticks,
}

/// All operations.
const OPERATIONS: [Operation; 31] = [
    Operation { name: "process-id", title: "process::id", measure: single::process_id },
    Operation { name: "now", title: "Instant::now", measure: single::now },
    Operation { name: "yield", title: "yield_now, alone", measure: single::yield_now },
    Operation {
        name: "yield-two",
        title: "yield between two threads, both switches",
        measure: switch::yields,
    },
    Operation { name: "condvar", title: "condvar round trip between two threads", measure: switch::condvar },
    Operation { name: "mpsc", title: "mpsc round trip", measure: switch::mpsc },
    Operation { name: "mutex", title: "Mutex, uncontended", measure: single::mutex },
    Operation { name: "spawn", title: "spawn + join, default stack", measure: threads::spawn },
    Operation { name: "spawn-64k", title: "spawn + join, 64 KiB stack", measure: threads::spawn_small },
    Operation { name: "box", title: "Box of 64 bytes, alloc + free", measure: single::small_box },
    Operation { name: "vec", title: "Vec of 4 KiB, uninitialised", measure: single::vec },
    Operation {
        name: "catch-unwind",
        title: "catch_unwind of a panic, 8 frames above",
        measure: panics::catch_unwind,
    },
    Operation { name: "threads-alive", title: "threads alive at once", measure: threads::alive },
    Operation { name: "open-close", title: "open + close", measure: files::open_close },
    Operation { name: "metadata", title: "metadata", measure: files::metadata },
    Operation { name: "read-1", title: "read 1 B", measure: files::read_1 },
    Operation { name: "write-1", title: "write 1 B", measure: files::write_1 },
    Operation { name: "seek", title: "seek", measure: files::seek },
    Operation { name: "create-unlink", title: "create + unlink", measure: files::create_unlink },
    Operation { name: "read-4k", title: "read 4 KiB", measure: files::read_4k },
    Operation { name: "write-4k", title: "write 4 KiB", measure: files::write_4k },
    Operation { name: "read-64k", title: "read 64 KiB", measure: files::read_64k },
    Operation { name: "write-64k", title: "write 64 KiB", measure: files::write_64k },
    Operation { name: "read-1m", title: "read 1 MiB", measure: files::read_1m },
    Operation { name: "write-1m", title: "write 1 MiB", measure: files::write_1m },
    Operation { name: "walk-1", title: "walk of 1 name", measure: files::walk_1 },
    Operation { name: "walk-4", title: "walk of 4 names", measure: files::walk_4 },
    Operation { name: "walk-16", title: "walk of 16 names", measure: files::walk_16 },
    Operation { name: "read-dir", title: "entry of 10,000, listed", measure: trees::read_dir },
    Operation { name: "untar", title: "file of 10,000, written", measure: trees::untar },
    Operation { name: "grep", title: "file of 10,000, searched", measure: trees::grep_tree },
];

fn main() -> ExitCode {
    let words: Vec<String> = env::args_os().skip(1).map(|name| name.display().to_string()).collect();
    let (is_time, names) = match words.split_first() {
        Some((first, names)) if first == NANOSECONDS => (true, names),
        _ => (false, words.as_slice()),
    };
    if let Some(name) = names.iter().find(|name| OPERATIONS.iter().all(|known| known.name != **name)) {
        eprintln!("there is no operation `{name}`; these there are:");
        for operation in &OPERATIONS {
            eprintln!("  {:<14} {}", operation.name, operation.title);
        }
        return ExitCode::from(USAGE_ERROR);
    }
    let unit = if is_time { counter::ticks_per_nanosecond() } else { 1.0 };
    println!("ticks of an instruction\t{:.3}", counter::ticks_per_instruction());
    let mut failed = false;
    for operation in &OPERATIONS {
        if !names.is_empty() && !names.iter().any(|name| name == operation.name) {
            continue;
        }
        match (operation.measure)() {
            Ok(ticks) => println!("{}\t{:.1}", operation.title, ticks / unit),
            Err(reason) => {
                eprintln!("failed: {}: {reason}", operation.title);
                failed = true;
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

#[cfg(test)]
mod tests {
    use super::OPERATIONS;

    #[test]
    fn all_operations_can_be_measured() {
        // Leaves out `threads-alive`, which starts as many threads as possible: other programs use this host.
        for operation in OPERATIONS.iter().filter(|operation| operation.name != "threads-alive") {
            let ticks = (operation.measure)().unwrap();
            assert!(ticks > 0.0, "{}: {ticks}", operation.title);
        }
    }
}
