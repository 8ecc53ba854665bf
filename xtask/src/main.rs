//! The build tool of the workspace: `cargo xtask COMMAND`.

#![forbid(unsafe_code)]

use std::env;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Error, Result};
use clap::Parser;
use hermit_toolchain::cargo::TOOLS_PROFILE;
use hermit_toolchain::{process, workspace};
use xtask::cli::{Arguments, Command, patch_config, setup};
use xtask::{exit, image, run, runner, temporary};

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    // `run` and the forwarded commands get no temporary folder here. They may replace this process by exec,
    // which would drop nothing and so leave the folder.
    let _temporary = matches!(command, Command::Setup(_) | Command::Image(_)).then(temporary::prepare);
    match command {
        Command::Setup(arguments) => exit::of_command(setup::main(&arguments)),
        Command::Run(arguments) => exit::of_guest(run::main(&arguments)),
        Command::Image(arguments) => exit::of_command(image::main(&arguments)),
        Command::Uhyve(forwarded) => exit::of_guest(run::exec_uhyve_with(&forwarded.arguments)),
        Command::PatchConfig(arguments) => exit::of_command(patch_config::main(&arguments)),
        Command::Runner(arguments) => exit::of_guest(runner::main(&arguments)),
        Command::Test(_)
        | Command::Bench(_)
        | Command::Figures(_)
        | Command::Lint(_)
        | Command::Patches(_)
        | Command::Addr2line(_)
        | Command::NetBench(_) => exit::of_command(become_xtask_dev()),
    }
}

/// Replaces this process by `xtask-dev` with the same arguments. Cargo builds `xtask-dev` first if it is out
/// of date; the build reuses the libraries of this program.
fn become_xtask_dev() -> Result<()> {
    let mut cargo = process::cargo();
    cargo.args(["run", "--package", "xtask-dev", "--profile", TOOLS_PROFILE]);
    // The first build takes long, so its progress is shown.
    if workspace::target_dir().join(TOOLS_PROFILE).join("xtask-dev").exists() {
        cargo.arg("--quiet");
    }
    cargo.arg("--manifest-path").arg(workspace::root().join("Cargo.toml"));
    cargo.arg("--").args(env::args_os().skip(1));
    Err(Error::new(cargo.exec()).context("cannot start cargo"))
}
