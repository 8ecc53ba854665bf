//! The images that the tests boot.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use tempfile::TempDir;

use xtask::build::{self, BuildOptions};
use xtask::setup;
use xtask::target::FloatAbi;

/// Scheduling policies other than the default one: features of `hermit-sys`.
pub(super) const POLICIES: [&str; 2] = ["fifo", "round-robin"];

/// Images of `abi_calls` with a feature of `hermit-sys`, by name: with a scheduling policy, and with other
/// allocators.
const CALLS: [(&str, &str); 3] = [(FIFO_CALLS, "fifo"), (BUMP_CALLS, "bump"), (TLSF_CALLS, "tlsf")];

pub(super) const FIFO_CALLS: &str = "abi_calls-fifo";
pub(super) const BUMP_CALLS: &str = "abi_calls-bump";
pub(super) const TLSF_CALLS: &str = "abi_calls-tlsf";

/// Examples that are built with and without floating-point instructions.
const ALWAYS: [&str; 9] =
    ["disk", "faults", "hello_world", "httpd", "net_calls", "shutdown", "stdin", "streams", "threads"];

/// Examples that are built with floating-point instructions only: they do not run on hosts that emulate
/// processors.
const HARD_FLOAT_ONLY: [&str; 15] = [
    "abi_calls",
    "boot_mark",
    "core_bench",
    "file_calls",
    "http_client",
    "kv",
    "mathematics",
    "notes",
    "plain_bench",
    "poll_server",
    "third_party",
    "udp_echo",
    "unwinding",
    "vectors",
    "web",
];

/// The example that compiles C. Hosts without a C compiler or without a mirror of the C library's sources
/// cannot build it.
const C_CODE: &str = "c_code";

/// Removes the programs in cargo's folder of a profile, so that they are linked again: cargo does not notice
/// another kernel of programs without `hermit-sys`.
pub(super) fn remove_programs(output: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(output.join("deps")) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        // A folder is what an interrupted compiler has left.
        if path.extension().is_none() && !path.is_dir() {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Images of the examples, by name, in a folder of their own: cargo gives all variants of one the same name.
#[derive(Debug)]
pub(super) struct Images {
    folder: TempDir,
    /// Why there is no image of [`C_CODE`].
    c_code_error: Option<String>,
}

impl Images {
    /// Builds all images in release mode, `hello_world` also in debug mode, `threads` with each scheduling
    /// policy, and `abi_calls` with some features; `c_code` if the host can.
    pub(super) fn build() -> Result<Self> {
        let mut examples = Self::new()?;
        examples.c_code_error = setup::ensure_c().err().map(|error| format!("{error:#}"));
        let release = BuildOptions { release: true, ..BuildOptions::default() };
        let mut names = [ALWAYS.as_slice(), &HARD_FLOAT_ONLY].concat();
        names.extend(examples.c_code_error.is_none().then_some(C_CODE));
        examples.add_all(&names, &release)?;
        for policy in POLICIES {
            let features = vec![format!("hermit-sys/{policy}")];
            examples.add("threads", policy, &BuildOptions { features, ..release.clone() })?;
        }
        for (name, feature) in CALLS {
            let features = vec![format!("hermit-sys/{feature}")];
            examples.add("abi_calls", name, &BuildOptions { features, ..release.clone() })?;
        }
        examples.add("hello_world", "debug", &BuildOptions::default())?;
        Ok(examples)
    }

    /// Builds images without floating-point instructions, for a KVM that emulates processors without them. It
    /// runs 1.8 million instructions a second, so only release mode is useful.
    pub(super) fn build_soft() -> Result<Self> {
        let examples = Self::new()?;
        examples.add_all(
            &ALWAYS,
            &BuildOptions { release: true, float: FloatAbi::Soft, ..BuildOptions::default() },
        )?;
        Ok(examples)
    }

    /// Builds one example in release mode.
    pub(super) fn build_one(example: &str) -> Result<Self> {
        let images = Self::new()?;
        images.add(example, example, &BuildOptions { release: true, ..BuildOptions::default() })?;
        Ok(images)
    }

    /// An empty folder.
    pub(super) fn new() -> Result<Self> {
        Ok(Self { folder: TempDir::new().context("cannot make a temporary folder")?, c_code_error: None })
    }

    /// Builds examples and copies their images.
    fn add_all(&self, examples: &[&str], options: &BuildOptions) -> Result<()> {
        for (example, image) in build::examples(examples, options)? {
            self.copy(&image, &example)?;
        }
        Ok(())
    }

    /// Builds an example and copies its image under a name.
    fn add(&self, example: &str, name: &str, options: &BuildOptions) -> Result<()> {
        build::examples(&[example], options)?.iter().try_for_each(|(_, image)| self.copy(image, name))
    }

    fn copy(&self, image: &Path, name: &str) -> Result<()> {
        fs::copy(image, self.image(name)).with_context(|| format!("cannot copy {}", image.display()))?;
        Ok(())
    }

    /// The folder of the images.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Why there is no image of `c_code`, if this host cannot build it.
    pub(super) fn c_code_error(&self) -> Option<&str> {
        self.c_code_error.as_deref()
    }

    /// The image of an example; `debug` is `hello_world` in debug mode, and a policy's name is `threads` with
    /// that policy.
    pub(super) fn image(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Something that a step of the test run builds for later steps.
#[derive(Debug)]
pub(super) struct Built<T>(Mutex<Option<T>>);

impl<T> Built<T> {
    /// Nothing yet.
    pub(super) fn nothing() -> Self {
        Self(Mutex::new(None))
    }

    /// Builds it and keeps it.
    pub(super) fn build(&self, build: impl FnOnce() -> Result<T>) -> Result<()> {
        let built = build()?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(built);
        Ok(())
    }

    /// Returns the result of the build, if it succeeded.
    pub(super) fn get(self) -> Option<T> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
