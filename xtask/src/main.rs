//! The build tool of the workspace: `cargo xtask COMMAND`.

#![forbid(unsafe_code)]

mod bench;
mod build;
mod image;
mod lint;
mod network;
mod process;
mod program;
mod qemu;
mod run;
mod runner;
mod setup;
mod temporary;
mod test;
mod uhyve;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use hermit_interface::exit::NOT_STARTED;

/// Builds, boots and tests programs as virtual-machine images.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what the target needs: std, core and alloc in the toolchain, QEMU
    Setup(setup::Arguments),
    /// Build a program if need be and run it in a virtual machine
    Run(run::Arguments),
    /// Make one file that boots with `qemu-system-x86_64 -kernel FILE`
    Image(image::Arguments),
    /// Run the tests: lints and all rings, or only the rings named
    Test(test::Arguments),
    /// Measure what things cost
    Bench(bench::Arguments),
    /// Check formatting, clippy and the project's own rules
    Lint(lint::Arguments),
    /// Run a program as cargo's target runner does
    #[command(hide = true)]
    Runner(runner::Arguments),
    /// Measure the network, in a namespace that is made for it
    #[command(hide = true)]
    NetBench(bench::net::Plan),
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    // What runs a guest may become that guest, and then has no end of its own. Without a folder of their own, files are where they
    // would be otherwise, and may stay there.
    let runs_guest = matches!(command, Command::Run(_) | Command::Runner(_));
    let _temporary = (!runs_guest).then(temporary::prepare);
    match command {
        Command::Setup(arguments) => succeed(setup::main(&arguments)),
        Command::Run(arguments) => exit_with(run::main(&arguments)),
        Command::Image(arguments) => succeed(image::main(&arguments)),
        Command::Test(arguments) => succeed(test::main(&arguments)),
        Command::Bench(arguments) => succeed(bench::main(&arguments)),
        Command::Lint(arguments) => succeed(lint::main(&arguments)),
        Command::NetBench(plan) => succeed(bench::net::inside(&plan)),
        Command::Runner(arguments) => exit_with(runner::main(&arguments)),
    }
}

/// The exit code of a command that succeeds or fails.
fn succeed(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Exit code of a wrong command line, as clap has it.
const MISUSED: u8 = 2;

/// The exit code of a command that runs a guest: the guest's, or that of a guest that never ran.
fn exit_with(result: Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if error.is::<run::Misuse>() { MISUSED } else { NOT_STARTED })
        }
    }
}
