//! The runner and the loader in the toolchain, with which programs boot from any folder.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};

use super::files;
use super::record::{self, Addition, Record};
use super::stamp::{Stamp, State};
use super::toolchain::Toolchain;
use crate::build::GUEST_TARGET;

/// File name of the installed copy of this program.
const RUNNER: &str = "hermit-runner";

/// File name of the installed loader.
const LOADER: &str = "hermit-loader";

/// The loader beside this program, if this program is the installed runner.
pub(crate) fn installed_loader() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let is_runner = program.file_name()? == RUNNER;
    is_runner.then(|| program.with_file_name(LOADER)).filter(|loader| loader.is_file())
}

/// Where the runner is installed.
pub(crate) fn runner(toolchain: &Toolchain) -> PathBuf {
    folder(toolchain).join(RUNNER)
}

/// Whether the installed runner and loader are copies of this program and of `loader`.
pub(crate) fn state(toolchain: &Toolchain, loader: &Path) -> Result<State> {
    let stamp = record::stamp(&toolchain.records(), "tools");
    Ok(Stamp::compare(&stamp, &key(&program()?, loader)?, &folder(toolchain)))
}

/// Installs copies of this program and of `loader`.
pub(crate) fn install(toolchain: &Toolchain, record: &Record, loader: &Path) -> Result<()> {
    let (program, folder) = (program()?, folder(toolchain));
    let key = key(&program, loader)?;
    record.add(Addition::Folder(GUEST_TARGET))?;
    for (from, name) in [(program.as_path(), RUNNER), (loader, LOADER)] {
        let (partial, path) = (folder.join(format!("{name}.new")), folder.join(name));
        files::copy(from, &partial)?;
        fs::rename(&partial, &path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Stamp::of(key, &folder, &[RUNNER, LOADER].map(PathBuf::from))?.save(&record.stamp("tools"))
}

fn folder(toolchain: &Toolchain) -> PathBuf {
    toolchain.target(GUEST_TARGET).join("bin")
}

fn program() -> Result<PathBuf> {
    env::current_exe().context("cannot find out where this program lies")
}

/// Size and time of both files: what tells a new build from the installed one without reading them.
fn key(program: &Path, loader: &Path) -> Result<String> {
    let identity = |file: &Path| {
        let meta = fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?;
        let age = meta.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok::<_, anyhow::Error>(format!("{}-{}", meta.len(), age.as_nanos()))
    };
    Ok(format!("{}-{}", identity(program)?, identity(loader)?))
}
