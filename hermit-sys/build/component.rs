//! A component of the image that is compiled apart from the program: the kernel or the network stack.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    /// Directories with its sources.
    pub(crate) sources: Vec<PathBuf>,
    /// Symbols that stay global.
    pub(crate) exports: Vec<String>,
    /// Enabled features.
    pub(crate) features: Vec<&'static str>,
}

/// Variables that configure the program's build, and must not affect the component's.
const OUTER_VARIABLES: [&str; 10] = [
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

/// Targets built into rustc. The one for soft-float images is not: `cargo xtask` writes a specification of it.
const BUILT_IN: [&str; 2] = ["x86_64-unknown-none", "x86_64-unknown-hermit"];

impl Component {
    /// Makes cargo run the build script again when the sources change.
    pub(crate) fn watch(&self) {
        for folder in &self.sources {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
    }

    /// Compiles the component into a static library; returns its path.
    pub(crate) fn compile(&self, out: &Path) -> Result<PathBuf, String> {
        let target_dir = self.target_dir(out)?;
        let mut cargo = Command::new(variable("CARGO")?);
        cargo.arg("build").arg("--manifest-path").arg(&self.manifest);
        cargo.args(["--package", self.package, "--target", &self.target, "--profile", "kernel"]);
        cargo.arg("--features").arg(self.features.join(","));
        cargo.arg("--target-dir").arg(&target_dir);
        // Cargo reads the configuration of its working directory: ours, not the program's.
        cargo.current_dir(self.manifest.parent().unwrap_or(Path::new(".")));
        for name in OUTER_VARIABLES {
            cargo.env_remove(name);
        }
        for (name, _) in env::vars_os() {
            let is_outer = name.to_str().is_some_and(|name| {
                name.starts_with("CARGO_PROFILE_")
                    || name.starts_with("CARGO_TARGET_")
                    || name.starts_with("CARGO_FEATURE_")
            });
            if is_outer {
                cargo.env_remove(name);
            }
        }
        if !BUILT_IN.contains(&self.target.as_str()) {
            // A target specification in a file is unstable.
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

    /// What the user can do about an error of the build, if that is known.
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
