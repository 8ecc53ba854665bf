//! `xtask runner`: the runner that cargo calls for `cargo run` and `cargo test` on the target.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

use crate::run::VmOptions;

/// The environment variable with the options of the virtual machine, as for `run`: cargo passes none.
const OPTIONS_VARIABLE: &str = "HERMIT_RUN_ARGS";

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
#[command(name = OPTIONS_VARIABLE, no_binary_name = true)]
struct Options {
    #[command(flatten)]
    vm: VmOptions,
}

/// Runs the image and returns the exit code of the guest.
pub fn main(arguments: &Arguments) -> Result<u8> {
    let options = env::var(OPTIONS_VARIABLE).unwrap_or_default();
    let words =
        shlex::split(&options).with_context(|| format!("{OPTIONS_VARIABLE} has an unclosed quote"))?;
    let vm = Options::try_parse_from(words).with_context(|| format!("{OPTIONS_VARIABLE}={options}"))?.vm;
    vm.check()?;
    vm.boot(vm.choose_vmm()?, arguments.image.clone(), &arguments.arguments)
}
