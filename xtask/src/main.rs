//! The build tool: `cargo xtask COMMAND`.
//!
//! One file per command; each has its arguments as a struct and a function `run`. What several commands need is
//! in [`workspace`] (where things are), [`process`] (other programs) and [`build`] (cargo).
#![forbid(unsafe_code)]

mod build;
mod process;
mod setup;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Builds, boots and tests Rust programs as virtual machines.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install the standard library for x86_64-unknown-hermit (the other commands do it by themselves)
    Setup(setup::Setup),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Setup(options) => succeed(setup::run(&options)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn succeed(result: Result<()>) -> Result<ExitCode> {
    result.map(|()| ExitCode::SUCCESS)
}
