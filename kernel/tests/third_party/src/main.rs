//! Runs crates from crates.io, some of them patched for the target, and prints a digest of each result.
//!
//! The digests are the same on every machine and in every run: `cargo xtask test` compares those of a guest
//! with `expected.txt`, and a unit test, with `--long`, those of the host.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod archives;
mod asynchronous;
mod databases;
mod formats;
mod locks;
mod maps;
mod messages;
mod parallel;
mod sockets;
mod text;
mod trees;

use std::env;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// A digest, or what went wrong.
type TestResult = Result<String, Box<dyn Error>>;

/// A test of a crate.
type CrateTest = fn() -> TestResult;

/// All crates, by name.
const CRATES: [(&str, CrateTest); 20] = [
    ("config", formats::config),
    ("crossbeam", messages::crossbeam),
    ("csv", formats::csv),
    ("dashmap", locks::dashmap),
    ("glob", trees::glob),
    ("ignore", trees::ignore),
    ("memmap2", maps::memmap2),
    ("parking_lot", locks::parking_lot),
    ("rayon", parallel::rayon),
    ("redb", databases::redb),
    ("regex", text::regex),
    ("serde_json", text::serde_json),
    ("sha2", text::sha2),
    ("sled", databases::sled),
    ("socket2", sockets::socket2),
    ("tar", archives::tar),
    ("tempfile", archives::tempfile),
    ("tokio", asynchronous::tokio),
    ("walkdir", trees::walkdir),
    ("zip", formats::zip),
];

fn main() -> ExitCode {
    let names: Vec<String> = env::args_os().skip(1).map(|name| name.display().to_string()).collect();
    let wanted = match names.as_slice() {
        [wanted] => wanted,
        [check, path] if check == maps::EXIT => return maps::write_at_exit(path),
        _ => return usage(),
    };
    let chosen: Vec<_> = CRATES.iter().filter(|(name, _)| wanted == "all" || wanted == name).collect();
    if chosen.is_empty() {
        return usage();
    }
    let mut failed = false;
    for (name, run) in chosen {
        match run() {
            Ok(digest) => println!("{name}: {digest}"),
            Err(message) => {
                eprintln!("failed: {name}: {message}");
                failed = true;
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

/// Prints the names of all crates to standard error.
fn usage() -> ExitCode {
    eprintln!("usage: third_party NAME, where NAME is `all` or one of");
    for (name, _) in CRATES {
        eprintln!("  {name}");
    }
    ExitCode::from(USAGE_ERROR)
}

/// Returns an error with a message unless the condition holds.
fn ensure(condition: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message()) }
}

/// Digest of a value, by a hasher with fixed keys.
fn digest(value: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// A reproducible sequence of pseudo-random numbers: the upper half of a linear congruential generator.
fn numbers(seed: u64) -> impl Iterator<Item = u32> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let states = std::iter::successors(Some(seed), next).skip(1);
    states.map(|state| u32::try_from(state >> 32).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::CRATES;

    #[test]
    fn digests_are_as_expected() {
        let digests = CRATES.map(|(name, run)| format!("{name}: {}\n", run().unwrap()));
        assert_eq!(digests.concat(), include_str!("../expected.txt"));
    }
}
