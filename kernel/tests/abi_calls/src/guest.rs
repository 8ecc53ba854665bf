//! The checks, by name. A check is an assertion: the program exits as soon as one fails, in whatever thread.

mod backtrace;
mod block;
mod calls;
mod copies;
mod descriptors;
mod devices;
mod errno;
mod eventfd;
mod exhausted;
mod first_use;
mod futex;
mod heap;
mod lookup;
mod memory;
mod mmap;
mod names;
mod paths;
mod poll;
mod priorities;
mod queues;
mod random;
mod raw_thread;
mod reclaim;
mod semaphores;
mod sleep;
mod spawn;
mod stdin;
mod support;

use std::process::{self, ExitCode};
use std::{env, panic};

use hermit_sys as _;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// A check.
type Check = fn();

/// All checks, by name.
const CHECKS: [(&str, Check); 34] = [
    ("backtrace", backtrace::backtrace),
    ("block", block::block),
    ("copies", copies::copies),
    ("descriptors", descriptors::descriptors),
    ("devices", devices::devices),
    ("devices-first", devices::devices_first),
    ("errno", errno::errno),
    ("eventfd", eventfd::eventfd),
    ("exhausted", exhausted::exhausted),
    ("exhausted-once", exhausted::exhausted_once),
    ("exhausted-disk", exhausted::exhausted_disk),
    ("exhausted-files", exhausted::exhausted_files),
    ("exhausted-folder", exhausted::exhausted_folder),
    ("exhausted-network", exhausted::exhausted_network),
    ("first-use", first_use::first_use),
    ("futex", futex::futex),
    ("heap", heap::heap),
    ("last-block", heap::last_block),
    ("lookup", lookup::lookup),
    ("mmap", mmap::mmap),
    ("mmap-parallel", mmap::parallel),
    ("names", names::names),
    ("names-initial", names::initial_names),
    ("nanosleep", sleep::nanosleep),
    ("page-size", memory::page_size),
    ("paths", paths::paths),
    ("poll", poll::poll),
    ("priorities", priorities::priorities),
    ("queues", queues::queues),
    ("random", random::random),
    ("reclaim", reclaim::reclaim),
    ("semaphores", semaphores::semaphores),
    ("spawn", spawn::spawn),
    ("stdin", stdin::stdin),
];

/// Runs the check that the argument names.
pub(crate) fn main() -> ExitCode {
    let name = env::args().nth(1).unwrap_or_default();
    let Some((_, check)) = CHECKS.iter().find(|(known, _)| *known == name) else {
        eprintln!("usage: abi_calls NAME, where NAME is one of");
        for (name, _) in CHECKS {
            eprintln!("  {name}");
        }
        return ExitCode::from(USAGE_ERROR);
    };
    panic::set_hook(Box::new(|failure| {
        eprintln!("failed: {failure}");
        process::exit(1);
    }));
    check();
    println!("ok");
    ExitCode::SUCCESS
}
