//! A part of the system that is compiled apart from the program.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::variable;

/// What is compiled, and how.
#[derive(Debug)]
pub(crate) struct Part {
    /// Name of the package.
    pub(crate) package: &'static str,
    /// Its manifest.
    pub(crate) manifest: PathBuf,
    /// What it is compiled for.
    pub(crate) target: String,
    /// The folders that it is made of.
    pub(crate) sources: Vec<PathBuf>,
    /// The symbols that stay visible.
    pub(crate) exports: Vec<String>,
    /// The features with which it is compiled.
    pub(crate) features: Vec<&'static str>,
}

/// What configures the outer build and must not reach the inner one: the program's flags are not the kernel's.
const OUTER: [&str; 10] = [
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTFLAGS",
    "RUSTC_BOOTSTRAP",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_LINKER",
];

/// The targets that rustc knows by itself. Another one is that of programs without floating-point instructions, which
/// the build tool describes to it.
const BUILT_IN: [&str; 2] = ["x86_64-unknown-none", "x86_64-unknown-hermit"];

impl Part {
    /// Has cargo run the build script again when the sources change.
    pub(crate) fn watch(&self) {
        for folder in &self.sources {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
    }

    /// Compiles the part into a static library and returns its path.
    pub(crate) fn compile(&self, out: &Path) -> Result<PathBuf, String> {
        let target_dir = self.target_dir(out)?;
        let mut cargo = Command::new(variable("CARGO")?);
        cargo.arg("build").arg("--manifest-path").arg(&self.manifest);
        cargo.args(["--package", self.package, "--target", &self.target, "--profile", "kernel"]);
        cargo.arg("--features").arg(self.features.join(","));
        cargo.arg("--target-dir").arg(&target_dir);
        // Cargo looks for its configuration from here on: ours, not the program's.
        cargo.current_dir(self.manifest.parent().unwrap_or(Path::new(".")));
        for name in OUTER {
            cargo.env_remove(name);
        }
        for (name, _) in env::vars_os() {
            let outer = name.to_str().is_some_and(|name| {
                name.starts_with("CARGO_PROFILE_")
                    || name.starts_with("CARGO_TARGET_")
                    || name.starts_with("CARGO_FEATURE_")
            });
            if outer {
                cargo.env_remove(name);
            }
        }
        if !BUILT_IN.contains(&self.target.as_str()) {
            // Else rustc does not read the target's specification, which lies in a file.
            cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", "-Zunstable-options");
        }
        let output = cargo.output().map_err(|error| format!("cannot start cargo: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} does not build:\n{text}{}", self.package, self.advice(&text)));
        }
        let library = format!("lib{}.a", self.package.replace('-', "_"));
        Ok(target_dir.join(&self.target).join("kernel").join(library))
    }

    /// The target folder of the inner build: one for each set of features, which all profiles of the program share.
    /// It lies in the program's own folder for the target, so that it is removed together with that.
    fn target_dir(&self, out: &Path) -> Result<PathBuf, String> {
        let target = variable("TARGET")?;
        let of_target = out.ancestors().find(|folder| folder.ends_with(&target)).unwrap_or(out);
        let name = [&[self.package], self.features.as_slice()].concat().join("-");
        Ok(of_target.join("hermit-sys").join(name))
    }

    /// What to do about an error, where that is known.
    fn advice(&self, text: &str) -> String {
        if text.contains("can't find crate for `core`") {
            format!(
                "the target {} is not installed: run `cargo xtask setup` in the system's workspace",
                self.target
            )
        } else if text.contains("can't find crate") || text.contains("possibly newer version") {
            "the target was set up anew since the last build: run `cargo clean`".to_owned()
        } else {
            String::new()
        }
    }
}
