//! A component of the image, compiled separately from the program: the kernel or the network stack.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build_dir::BuildDir;
use crate::digest::Inputs;
use crate::toolchain::Toolchain;
use crate::variable;

/// A component and how it is compiled.
#[derive(Debug)]
pub(crate) struct Component {
    /// Name of the package.
    pub(crate) package: &'static str,
    /// Path of its `Cargo.toml`.
    pub(crate) manifest: PathBuf,
    /// Target triple, or the path of a target specification.
    pub(crate) target: String,
    /// Source files, and directories of source files.
    pub(crate) sources: Vec<PathBuf>,
    /// Symbols that stay global.
    pub(crate) exports: Vec<String>,
    /// Enabled features.
    pub(crate) features: Vec<&'static str>,
}

/// Variables that configure the program's build, and must not affect the component's: cargo rejects
/// `CARGO_INCREMENTAL=1` together with link-time optimisation.
const OUTER_VARIABLES: [&str; 8] = [
    "__CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_INCREMENTAL",
    "RUSTFLAGS",
    "RUSTC_BOOTSTRAP",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_LINKER",
];

/// Prefixes of the names of further such variables.
const OUTER_PREFIXES: [&str; 4] = ["CARGO_BUILD_", "CARGO_FEATURE_", "CARGO_PROFILE_", "CARGO_TARGET_"];

/// Variable with the number of parallel jobs. It stays, since the user has chosen it for all builds.
const JOBS: &str = "CARGO_BUILD_JOBS";

/// The toolchain that `cargo xtask setup` sets up, as `rust-toolchain.toml` names it.
const TOOLCHAIN: &str = "1.95.0";

/// Targets built into rustc. The target of soft-float images is not built in: `cargo xtask` writes a
/// specification of it.
const BUILT_IN: [&str; 2] = ["x86_64-unknown-none", "x86_64-unknown-hermit"];

impl Component {
    /// Makes cargo run the build script again when the sources change. The paths are relative to this
    /// package, the folder `hermit-sys` of the workspace, so that a copy of the workspace with its target
    /// folder watches its own sources.
    pub(crate) fn watch(&self, workspace: &Path) {
        for path in &self.sources {
            let path = path.strip_prefix(workspace).map_or(path.clone(), |path| Path::new("..").join(path));
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }

    /// Returns a digest of all that determines the object: compiler, libraries, options, and the sources with
    /// their paths, which debuggers find in the object.
    pub(crate) fn key(&self, toolchain: &Toolchain) -> Result<String, String> {
        let mut inputs = Inputs::default();
        let options = [self.features.join(","), self.exports.join(",")];
        let libraries = toolchain.libraries(&self.target);
        for text in [self.package, &self.target, &toolchain.identity, &libraries] {
            inputs.add(text.as_bytes());
        }
        for text in &options {
            inputs.add(text.as_bytes());
        }
        for path in &self.sources {
            inputs.add_files(path)?;
        }
        Ok(inputs.finish())
    }

    /// Name of the object in the cache.
    pub(crate) fn name(&self) -> String {
        [&[self.package], self.features.as_slice()].concat().join("-")
    }

    /// Compiles the component into a static library; returns its path.
    pub(crate) fn compile(&self, dir: &BuildDir) -> Result<PathBuf, String> {
        let mut cargo = Command::new(variable("CARGO")?);
        cargo.arg("build").arg("--manifest-path").arg(&self.manifest);
        cargo.args(["--package", self.package, "--target", &self.target, "--profile", "kernel"]);
        cargo.arg("--features").arg(self.features.join(","));
        cargo.arg("--target-dir").arg(dir.path());
        // Cargo reads the configuration of its working directory: ours, not the program's.
        cargo.current_dir(self.manifest.parent().unwrap_or(Path::new(".")));
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_outer)) {
            cargo.env_remove(name);
        }
        // Flags in the environment, even an empty list, take precedence over the flags of the user's
        // configuration.
        cargo.env("CARGO_ENCODED_RUSTFLAGS", "");
        if !BUILT_IN.contains(&self.target.as_str()) {
            // A target specification in a file is an unstable feature of rustc.
            cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", "-Zunstable-options");
        }
        let output = cargo.output().map_err(|error| format!("cannot start cargo: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} does not build:\n{text}{}", self.package, self.advice(&text)));
        }
        let library = format!("lib{}.a", self.package.replace('-', "_"));
        Ok(dir.path().join(&self.target).join("kernel").join(library))
    }

    /// Advice for the user about an error of the build, if there is any.
    fn advice(&self, text: &str) -> String {
        if text.contains("can't find crate for `core`") {
            return format!(
                "the target {} is not installed in this toolchain: use `cargo +{TOOLCHAIN}`, after `cargo xtask setup` in the \
                 system's workspace",
                self.target
            );
        }
        String::new()
    }
}

/// Returns true if a variable of this name must not affect the build of a component.
fn is_outer(name: &str) -> bool {
    let has_prefix = OUTER_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    OUTER_VARIABLES.contains(&name) || has_prefix && name != JOBS
}

#[cfg(test)]
mod tests {
    use super::is_outer;

    #[test]
    fn variables_of_the_users_build_are_outer() {
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_BUILD_BUILD_DIR",
            "CARGO_BUILD_RUSTC_WRAPPER",
            "CARGO_INCREMENTAL",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_TARGET_X86_64_UNKNOWN_NONE_RUSTFLAGS",
        ] {
            assert!(is_outer(name), "{name}");
        }
        for name in
            ["CARGO", "CARGO_HOME", "CARGO_BUILD_JOBS", "CARGO_MAKEFLAGS", "CARGO_NET_OFFLINE", "PATH"]
        {
            assert!(!is_outer(name), "{name}");
        }
    }
}
