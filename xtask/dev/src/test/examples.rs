//! The images that the tests boot.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use xtask::build::{self, BuildOptions};
use xtask::target::FloatAbi;
use xtask::workspace;

/// The policies other than the usual one by which threads share CPUs: features of `hermit-sys`.
pub(super) const POLICIES: [&str; 2] = ["fair", "fifo"];

/// What is built in every way.
const ALWAYS: [&str; 7] = ["disk", "faults", "hello_world", "httpd", "net_calls", "stdin", "threads"];

/// What is not built without floating-point instructions: it is not for hosts that merely emulate.
const ORDINARY: [&str; 6] = ["abi_calls", "http_client", "poll_server", "third_party", "udp_echo", "web"];

/// Images of the examples, by name, in a folder of their own: cargo gives all variants of one the same name.
#[derive(Debug)]
pub(super) struct Examples {
    folder: TempDir,
}

impl Examples {
    /// Builds all of them optimised, `hello_world` also otherwise, and `threads` with every policy.
    pub(super) fn build() -> Result<Self> {
        let examples = Self::new()?;
        let release = BuildOptions { release: true, ..BuildOptions::default() };
        for name in ALWAYS.iter().chain(&ORDINARY) {
            examples.add(name, name, &release)?;
        }
        examples.add("hello_world", "debug", &BuildOptions::default())?;
        for policy in POLICIES {
            let features = vec![format!("hermit-sys/{policy}")];
            examples.add("threads", policy, &BuildOptions { features, ..release.clone() })?;
        }
        Ok(examples)
    }

    /// Builds those without floating-point instructions, for processors that know none. A KVM that emulates them runs
    /// 1.8 million instructions a second, so what is to run there is better optimised.
    pub(super) fn build_soft() -> Result<Self> {
        let examples = Self::new()?;
        let options = BuildOptions { release: true, float: FloatAbi::Soft, ..BuildOptions::default() };
        for name in ALWAYS {
            examples.add(name, name, &options)?;
        }
        Ok(examples)
    }

    fn new() -> Result<Self> {
        Ok(Self { folder: TempDir::new().context("cannot make a temporary folder")? })
    }

    fn add(&self, example: &str, name: &str, options: &BuildOptions) -> Result<()> {
        let source = workspace::example(example).with_context(|| format!("there is no example {example}"))?;
        let image = build::guest_program(&source, options)?;
        fs::copy(&image, self.image(name)).with_context(|| format!("cannot copy {}", image.display()))?;
        Ok(())
    }

    /// The folder in which they are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The image of an example, `debug` for the `hello_world` that is not optimised, or a policy's `threads`.
    pub(super) fn image(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
