//! The installed tools in the folder of the target: the runner, and uhyve and the loader, which the runner
//! uses. Crates outside the workspace run with these tools.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::UHYVE_COST;
use super::package_sources;
use super::progress::{Cost, Progress};
use super::record::{self, Record};
use super::stamp::{Stamp, State};
use super::uhyve_library;
use crate::target::GUEST_TARGET;
use crate::toolchain::Toolchain;
use crate::{cargo, digest, workspace};

const RUNNER: &str = "hermit-runner";
const LOADER: &str = "hermit-loader";
const UHYVE: &str = "uhyve";

/// Cost of the build of the loader.
const LOADER_COST: Cost = Cost { seconds: 20.0, large: &[("hermit_loader", 4.0)] };

/// Packages of the tools: uhyve, the loader and the runner.
const PACKAGES: [&str; 3] = ["hypervisor", "loader", "xtask"];

/// Other files of the workspace from which the tools are made. [`super`] includes the last one.
const OTHER_SOURCES: [&str; 3] = ["Cargo.toml", "Cargo.lock", "hermit-sys/build/user_cache.rs"];

fn folder(toolchain: &Toolchain) -> PathBuf {
    toolchain.target(GUEST_TARGET).join("bin")
}

/// Returns a digest of everything from which the tools are made.
pub(super) fn key(toolchain: &Toolchain) -> Result<String> {
    let mut hash = Sha256::new();
    hash.update(&toolchain.identity);
    let sources = package_sources::list(workspace::root(), &PACKAGES)?;
    let others = OTHER_SOURCES.map(PathBuf::from);
    digest::add_files(&mut hash, workspace::root(), sources.into_iter().chain(others))?;
    Ok(digest::hex(&hash.finalize()))
}

/// Compares the installed tools with their stamp and with the current [`key`].
pub(crate) fn state(toolchain: &Toolchain) -> Result<State> {
    let stamp = record::stamp(&toolchain.records(), "tools");
    Ok(Stamp::compare(&stamp, &key(toolchain)?, &folder(toolchain)))
}

/// Installs the tools.
pub(crate) fn install(toolchain: &Toolchain, record: &Record) -> Result<()> {
    let folder = folder(toolchain);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (from, name) in [(build_loader()?, LOADER), (build_uhyve()?, UHYVE), (cargo::build_xtask()?, RUNNER)]
    {
        // A running executable cannot be overwritten (`ETXTBSY`), but a rename can replace it.
        let (partial, target) = (folder.join(format!("{name}.partial")), folder.join(name));
        fs::copy(&from, &partial)
            .and_then(|_| fs::rename(&partial, &target))
            .with_context(|| format!("cannot install {}", target.display()))?;
    }
    let names = [LOADER, UHYVE, RUNNER].map(PathBuf::from);
    Stamp::of(key(toolchain)?, &folder, &names)?.save(&record.stamp("tools"))
}

/// Returns the loader. If this process is the installed runner, that is the loader beside the runner.
/// Otherwise it is the loader of the workspace, which is built if it is out of date.
pub fn loader() -> Result<PathBuf> {
    beside(LOADER)?.map_or_else(build_loader, Ok)
}

/// Returns uhyve. If this process is the installed runner, that is the uhyve beside the runner. Otherwise it
/// is the uhyve of the workspace, which is built if it is out of date.
pub fn uhyve() -> Result<PathBuf> {
    beside(UHYVE)?.map_or_else(build_uhyve, Ok)
}

/// Builds the loader if it is out of date.
fn build_loader() -> Result<PathBuf> {
    let progress = Progress::new();
    cargo::build_loader(progress.add("loader", LOADER_COST))
}

/// Builds uhyve if it is out of date.
fn build_uhyve() -> Result<PathBuf> {
    let progress = Progress::new();
    cargo::build_uhyve(progress.add("uhyve", UHYVE_COST), uhyve_library::is_installed())
}

/// Returns the tool of this name beside this executable, if this process is the installed runner.
fn beside(name: &str) -> Result<Option<PathBuf>> {
    let own = env::current_exe().context("cannot find this executable")?;
    let is_runner = own.file_name().is_some_and(|name| Path::new(name) == Path::new(RUNNER));
    let tool = own.with_file_name(name);
    Ok((is_runner && tool.is_file()).then_some(tool))
}

/// Returns the installed runner's file.
pub(super) fn runner(toolchain: &Toolchain) -> PathBuf {
    folder(toolchain).join(RUNNER)
}
