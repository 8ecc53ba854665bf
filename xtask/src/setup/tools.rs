//! The runner and the loader in the target's folder, for crates outside the workspace.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::files;
use super::record::{self, Record};
use super::sources::hex;
use super::stamp::{Stamp, State};
use super::toolchain::Toolchain;
use crate::build::{self, GUEST_TARGET};
use crate::workspace;

const RUNNER: &str = "hermit-runner";
const LOADER: &str = "hermit-loader";

/// What the loader and this tool are made of.
const SOURCES: [&str; 7] =
    ["hermit-abi", "loader", "xtask", "kernel/boot", "kernel/interface", "kernel/paging", "kernel/ranges"];

fn folder(toolchain: &Toolchain) -> PathBuf {
    toolchain.target(GUEST_TARGET).join("bin")
}

/// Everything that the tools are made from, as one word.
fn key(toolchain: &Toolchain) -> Result<String> {
    let mut hash = Sha256::new();
    hash.update(&toolchain.identity);
    for source in SOURCES {
        let source = workspace::root().join(source);
        for file in files::list(&source)? {
            hash.update(file.as_os_str().as_encoded_bytes());
            hash.update(
                fs::read(source.join(&file)).with_context(|| format!("cannot read {}", file.display()))?,
            );
        }
    }
    for file in ["Cargo.toml", "Cargo.lock"] {
        let bytes = fs::read(workspace::root().join(file));
        hash.update(bytes.with_context(|| format!("cannot read the workspace's {file}"))?);
    }
    Ok(hex(&hash.finalize()))
}

/// Whether the tools are installed.
pub(crate) fn state(toolchain: &Toolchain) -> Result<State> {
    let stamp = record::stamp(&toolchain.records(), "tools");
    Ok(Stamp::compare(&stamp, &key(toolchain)?, &folder(toolchain)))
}

/// Installs the tools.
pub(crate) fn install(toolchain: &Toolchain, record: &Record) -> Result<()> {
    let folder = folder(toolchain);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let own = env::current_exe().context("cannot find this program's file")?;
    for (from, name) in [(build::loader()?, LOADER), (own, RUNNER)] {
        // A file that runs cannot be overwritten, but another can take its place.
        let (partial, place) = (folder.join(format!("{name}.partial")), folder.join(name));
        fs::copy(&from, &partial)
            .and_then(|_| fs::rename(&partial, &place))
            .with_context(|| format!("cannot install {}", place.display()))?;
    }
    let names = [LOADER, RUNNER].map(PathBuf::from);
    Stamp::of(key(toolchain)?, &folder, &names)?.save(&record.stamp("tools"))
}

/// The loader: the one beside this program if this is the installed runner, else the installed one.
pub(crate) fn loader() -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find this program's file")?;
    let beside = own.with_file_name(LOADER);
    let is_runner = own.file_name().is_some_and(|name| Path::new(name) == Path::new(RUNNER));
    if is_runner && beside.is_file() {
        return Ok(beside);
    }
    Ok(folder(&Toolchain::detect()?).join(LOADER))
}

/// Says how to have cargo run programs.
pub(crate) fn explain(toolchain: &Toolchain) {
    let runner = folder(toolchain).join(RUNNER);
    eprintln!(
        "For `cargo run` and `cargo test --target {GUEST_TARGET}` in any crate, add to ~/.cargo/config.toml:"
    );
    eprintln!("    [target.{GUEST_TARGET}]\n    runner = [{:?}, \"runner\"]", runner.display().to_string());
}
