//! `xtask runner`: what cargo calls for `cargo run` and `cargo test` on the target.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

use crate::run::Machine;

/// Options of the machine, as for `run`, since cargo passes none.
const OPTIONS: &str = "HERMIT_RUN_ARGS";

/// Arguments that cargo passes.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The image
    image: PathBuf,
    /// Arguments of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(Debug, Parser)]
#[command(name = OPTIONS, no_binary_name = true)]
struct Options {
    #[command(flatten)]
    machine: Machine,
}

/// Runs the image and returns the exit code of the guest.
pub fn main(arguments: &Arguments) -> Result<u8> {
    let options = env::var(OPTIONS).unwrap_or_default();
    let words = shlex::split(&options).with_context(|| format!("{OPTIONS} has an open quote"))?;
    let machine = Options::try_parse_from(words).with_context(|| format!("{OPTIONS}={options}"))?.machine;
    machine.check()?;
    machine.boot(machine.monitor()?, arguments.image.clone(), &arguments.arguments)
}
