//! The frame of the programs that use crates: each has a table of crates, and an argument selects the one to
//! use.

use std::env;
use std::error::Error;
use std::process::ExitCode;

/// Result of a use of a crate; an error is printed and fails the program.
pub type Result = std::result::Result<(), Box<dyn Error + Send + Sync>>;

/// A crate: its name, and the function that uses it and prints the results.
pub type Use = (&'static str, fn() -> Result);

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Uses the crate that the argument names. `list` prints the names instead.
pub fn main(uses: &[Use]) -> ExitCode {
    let names: Vec<String> = env::args().skip(1).collect();
    if names == ["list"] {
        uses.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    let chosen = uses.iter().find(|(name, _)| names == [*name]);
    let Some((_, run)) = chosen else {
        eprintln!("usage: PROGRAM CRATE, where CRATE is one of those that `PROGRAM list` prints");
        return ExitCode::from(USAGE_ERROR);
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A reproducible sequence of pseudo-random numbers: the upper half of a linear congruential generator.
pub fn numbers(seed: u64) -> impl Iterator<Item = u32> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let states = std::iter::successors(Some(seed), next).skip(1);
    states.map(|state| (state >> 32) as u32)
}

/// Digest of bytes (FNV-1a), for results that are too long to print.
pub fn digest(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Fails a use unless the condition holds.
pub fn ensure(condition: bool, message: &str) -> Result {
    if condition { Ok(()) } else { Err(message.into()) }
}
