//! `cargo xtask setup`: makes the Rust toolchain able to build and boot programs for `x86_64-unknown-hermit`.
//!
//! Every other command calls [`ensure`], which returns at once when everything is in place. What is in place is
//! decided by stamps (see [`stamp`]); what can be taken out again by a record (see [`record`]).

mod debian;
mod files;
mod library;
pub(crate) mod qemu;
mod record;
mod remove;
mod sources;
mod stamp;
pub(crate) mod toolchain;
mod tools;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use self::record::Record;
use self::sources::Sources;
use self::stamp::State;
use self::toolchain::Toolchain;
use crate::build::{self, BARE_TARGET, GUEST_TARGET};

/// Arguments of the command.
#[derive(Args, Debug)]
pub(crate) struct Setup {
    /// Take out of the toolchain what setup installed
    #[arg(long)]
    remove: bool,
}

/// What is in place after a set-up.
#[derive(Debug)]
pub(crate) struct Installed {
    /// The loader to boot images with.
    pub(crate) loader: PathBuf,
}

/// Runs the command.
pub(crate) fn run(options: &Setup) -> Result<()> {
    let toolchain = Toolchain::detect()?;
    if options.remove {
        return remove::remove(&toolchain);
    }
    if !set_up(&toolchain)?.1 {
        eprintln!("{} is ready: nothing to do", toolchain.sysroot.display());
    }
    if !qemu::is_installed() {
        eprintln!("warning: {}", qemu::advice());
    }
    Ok(())
}

/// Makes sure that everything is in place.
pub(crate) fn ensure() -> Result<Installed> {
    if let Some(loader) = tools::installed_loader() {
        return Ok(Installed { loader });
    }
    let (installed, _) = set_up(&Toolchain::detect()?).context("cannot set up the Rust toolchain")?;
    Ok(installed)
}

/// Does what is to be done, and says whether that was anything.
fn set_up(toolchain: &Toolchain) -> Result<(Installed, bool)> {
    if libraries_are_current(toolchain)? {
        let loader = build::loader()?;
        if is_complete(toolchain, &loader)? {
            return Ok((Installed { loader }, false));
        }
    }
    let record = Record::open(toolchain)?;
    install_std(toolchain, &record)?;
    install_bare(toolchain, &record)?;
    let loader = install_tools(toolchain, &record)?;
    Ok((Installed { loader }, true))
}

fn libraries_are_current(toolchain: &Toolchain) -> Result<bool> {
    Ok(library::std_state(toolchain)? == State::Current && library::bare_state(toolchain) == State::Current)
}

fn is_complete(toolchain: &Toolchain, loader: &std::path::Path) -> Result<bool> {
    let qemu = qemu::is_installed() || !qemu::can_install();
    Ok(qemu && tools::state(toolchain, loader)? == State::Current)
}

fn install_std(toolchain: &Toolchain, record: &Record) -> Result<()> {
    let state = library::std_state(toolchain)?;
    if state == State::Current {
        return Ok(());
    }
    eprintln!("[1/4] sources of the standard library of Rust {}", toolchain.release());
    let sources = Sources::prepare(toolchain, record)?;
    eprintln!("[2/4] std for {GUEST_TARGET} ({state}); takes about a minute");
    library::install_std(toolchain, record, &sources)
}

fn install_bare(toolchain: &Toolchain, record: &Record) -> Result<()> {
    let state = library::bare_state(toolchain);
    if state == State::Current {
        return Ok(());
    }
    eprintln!("[3/4] core and alloc for {BARE_TARGET} ({state})");
    library::install_bare(toolchain, record)
}

fn install_tools(toolchain: &Toolchain, record: &Record) -> Result<PathBuf> {
    let loader = build::loader()?;
    if is_complete(toolchain, &loader)? {
        return Ok(loader);
    }
    if !qemu::is_installed() && qemu::can_install() {
        eprintln!("[4/4] QEMU");
        if let Err(error) = qemu::install(record) {
            eprintln!("warning: {error:#}\nwarning: {}", qemu::advice());
        }
    }
    let state = tools::state(toolchain, &loader)?;
    if state == State::Current {
        return Ok(loader);
    }
    eprintln!("[4/4] runner and loader ({state})");
    tools::install(toolchain, record, &loader)?;
    if state == State::Missing {
        explain(&tools::runner(toolchain));
    }
    Ok(loader)
}

fn explain(runner: &std::path::Path) {
    let runner = runner.display();
    eprintln!(
        "\nPrograms for {GUEST_TARGET} can now be built anywhere with plain cargo. For `cargo run` and\n\
         `cargo test --target {GUEST_TARGET}` to boot them, add this to ~/.cargo/config.toml:\n\n    \
         [target.{GUEST_TARGET}]\n    runner = [\"{runner}\", \"runner\"]\n"
    );
}
