//! The build tool of the workspace: `cargo xtask COMMAND`.

#![forbid(unsafe_code)]

use std::env;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Error, Result};
use clap::Parser;
use xtask::cargo::TOOLS_PROFILE;
use xtask::cli::{Arguments, Command};
use xtask::{crates, exit, image, patches, process, run, runner, setup, temporary, workspace};

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    // Neither `run` nor a forwarded command needs a temporary folder of this process: it may become another
    // program by exec, which drops nothing.
    let _temporary = matches!(command, Command::Setup(_) | Command::Image(_)).then(temporary::prepare);
    match command {
        Command::Setup(arguments) => exit::of_command(setup::main(&arguments)),
        Command::Run(arguments) => exit::of_guest(run::main(&arguments)),
        Command::Image(arguments) => exit::of_command(image::main(&arguments)),
        Command::Uhyve(forwarded) => exit::of_guest(run::exec_uhyve_with(&forwarded.arguments)),
        Command::Patches(arguments) => exit::of_command(patches::main(&arguments)),
        Command::PatchConfig(arguments) => exit::of_command(crates::main(&arguments)),
        Command::Runner(arguments) => exit::of_guest(runner::main(&arguments)),
        Command::Test(_)
        | Command::Bench(_)
        | Command::Figures(_)
        | Command::Lint(_)
        | Command::Addr2line(_)
        | Command::NetBench(_) => exit::of_command(become_xtask_dev()),
    }
}

/// Replaces this process by `xtask-dev` with the same arguments, built by cargo if need be, from the
/// libraries of this program.
fn become_xtask_dev() -> Result<()> {
    let mut cargo = process::cargo();
    cargo.args(["run", "--package", "xtask-dev", "--profile", TOOLS_PROFILE]);
    // Compiling it for the first time takes long enough to show it.
    if workspace::target_dir().join(TOOLS_PROFILE).join("xtask-dev").exists() {
        cargo.arg("--quiet");
    }
    cargo.arg("--manifest-path").arg(workspace::root().join("Cargo.toml"));
    cargo.arg("--").args(env::args_os().skip(1));
    Err(Error::new(cargo.exec()).context("cannot start cargo"))
}
