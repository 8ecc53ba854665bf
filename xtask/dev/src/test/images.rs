//! The images that the tests boot.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use hermit_toolchain::build::{self, BuildOptions};
use hermit_toolchain::setup;
use hermit_toolchain::target::FloatAbi;
use tempfile::TempDir;

/// Scheduling policies other than the default one: features of `hermit-sys`.
pub(super) const POLICIES: [&str; 2] = ["fifo", "round-robin"];

/// Images of `abi_calls`, as pairs of a name and the feature of `hermit-sys` with which it is built. The
/// features select a scheduling policy or another allocator.
const CALLS: [(&str, &str); 3] = [(FIFO_CALLS, "fifo"), (BUMP_CALLS, "bump"), (TLSF_CALLS, "tlsf")];

pub(super) const FIFO_CALLS: &str = "abi_calls-fifo";
pub(super) const BUMP_CALLS: &str = "abi_calls-bump";
pub(super) const TLSF_CALLS: &str = "abi_calls-tlsf";

/// Programs that are built both with and without floating-point instructions.
const ALWAYS: [&str; 9] =
    ["disk", "faults", "hello_world", "httpd", "net_calls", "shutdown", "stdin", "streams", "threads"];

/// Programs that are built only with floating-point instructions, because they are not tested on hosts that
/// emulate the processor.
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

/// The program that contains C code. A host without a C compiler, or without access to the C library's
/// sources, cannot build it.
const C_CODE: &str = "c_code";

/// Removes the programs in cargo's output folder of a profile, so that cargo links them again. Cargo itself
/// does not notice if the kernel of programs without `hermit-sys` has changed.
pub(super) fn remove_programs(output: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(output.join("deps")) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        // Skips folders, which an interrupted compiler may leave.
        if path.extension().is_none() && !path.is_dir() {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Images of the programs, by name. They are copied to a separate folder, because cargo gives all variants of
/// a program the same file name.
#[derive(Debug)]
pub(super) struct Images {
    folder: TempDir,
    /// Reason why there is no image of [`C_CODE`].
    c_code_error: Option<String>,
}

impl Images {
    /// Builds all images in release mode. Also builds `hello_world` in debug mode, `threads` with each
    /// scheduling policy, `abi_calls` with the features in [`CALLS`], and `c_code` if the host can build it.
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

    /// Builds images without floating-point instructions, for a KVM that emulates a processor without them.
    /// The emulation is slow, about 1.8 million instructions per second, so the images are built only in
    /// release mode.
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

    /// Creates an empty folder of images.
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

    /// Returns the folder of the images.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the reason why there is no image of `c_code`, if this host cannot build it.
    pub(super) fn c_code_error(&self) -> Option<&str> {
        self.c_code_error.as_deref()
    }

    /// Returns the image of a program. The name `debug` stands for `hello_world` in debug mode, and the name
    /// of a scheduling policy for `threads` with that policy.
    pub(super) fn image(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A value that a step of the test run builds for later steps.
#[derive(Debug)]
pub(super) struct Built<T>(Mutex<Option<T>>);

impl<T> Built<T> {
    /// Returns an empty value: nothing is built yet.
    pub(super) fn nothing() -> Self {
        Self(Mutex::new(None))
    }

    /// Calls `build` and keeps the result.
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
