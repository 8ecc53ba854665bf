//! The Rust toolchain that the workspace selects, and the folders inside it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace;

/// The toolchain, cached: a query of rustc takes longer than most other steps of a run.
static DETECTED: OnceLock<Toolchain> = OnceLock::new();

/// A Rust toolchain.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// Root folder of the toolchain.
    pub(crate) sysroot: PathBuf,
    /// Output of `rustc -vV`, which identifies the compiler.
    pub(crate) identity: String,
}

impl Toolchain {
    /// Queries the `rustc` that is selected inside the workspace, once in each run.
    pub fn detect() -> Result<Self> {
        if let Some(known) = DETECTED.get() {
            return Ok(known.clone());
        }
        let detected = Self::query()?;
        Ok(DETECTED.get_or_init(|| detected).clone())
    }

    fn query() -> Result<Self> {
        let rustc = |args: &[&str]| {
            process::output(Command::new("rustc").args(args).current_dir(workspace::root())).context(
                "install Rust 1.95.0 first: https://rustup.rs, then `rustup toolchain install 1.95.0`",
            )
        };
        let sysroot = PathBuf::from(rustc(&["--print", "sysroot"])?.trim_end());
        Ok(Self { sysroot, identity: rustc(&["-vV"])? })
    }

    /// Returns the release, for instance `1.95.0`.
    pub fn release(&self) -> &str {
        self.field("release").unwrap_or("unknown")
    }

    /// Returns the commit from which rustc was built, if it is known.
    pub(crate) fn commit(&self) -> Option<&str> {
        self.field("commit-hash").filter(|hash| *hash != "unknown")
    }

    /// Returns a field of the identity.
    fn field(&self, name: &str) -> Option<&str> {
        self.identity.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Returns the folder with a subfolder for each target.
    pub fn rustlib(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib")
    }

    /// Returns the folder of a target.
    pub fn target(&self, target: &str) -> PathBuf {
        self.rustlib().join(target)
    }

    /// Returns a program of the toolchain. `component` is the component of rustup that contains the program.
    ///
    /// # Errors
    ///
    /// Fails if the component is not installed.
    pub fn program(&self, name: &str, component: &str) -> Result<PathBuf> {
        let program = self.sysroot.join("bin").join(name);
        let advice = || format!("{} is missing: `rustup component add {component}`", program.display());
        program.is_file().then(|| program.clone()).with_context(advice)
    }

    /// Returns a tool that comes with the compiler, such as `rust-objcopy`.
    pub(crate) fn host_tool(&self, name: &str) -> Result<PathBuf> {
        let host = self.field("host").context("rustc does not name its host")?;
        let tool = self.target(host).join("bin").join(name);
        if tool.is_file() { Ok(tool) } else { anyhow::bail!("{} is missing", tool.display()) }
    }

    /// Returns the folder of set-up's records.
    pub(crate) fn records(&self) -> PathBuf {
        self.rustlib().join("hermit-setup")
    }

    /// Returns the command `rustup WORDS... --toolchain NAME ITEM` for this toolchain, if rustup manages it.
    pub fn rustup(&self, words: &[&str], item: &str) -> Option<Command> {
        let rustup = process::find("rustup")?;
        let managed = rustup_home()?.join("toolchains").canonicalize().ok()?;
        let sysroot = self.sysroot.canonicalize().ok()?;
        let name = (sysroot.parent()? == managed).then(|| sysroot.file_name()).flatten()?;
        let mut command = Command::new(rustup);
        command.args(words).arg("--toolchain").arg(name).arg(item);
        // rustup's progress bar would overwrite the lines of builds that run at the same time.
        command.env("RUSTUP_TERM_PROGRESS_WHEN", "never");
        Some(command)
    }
}

fn rustup_home() -> Option<PathBuf> {
    match env::var_os("RUSTUP_HOME") {
        Some(home) if !home.is_empty() => Some(PathBuf::from(home)),
        _ => Some(env::home_dir()?.join(".rustup")),
    }
}

/// Returns the names of the files in `folder`, or no names if there is no such folder.
pub(crate) fn file_names(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_file())
        .map(|entry| PathBuf::from(entry.file_name()))
        .collect();
    names.sort();
    names
}
