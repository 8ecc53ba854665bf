//! Compiles packages with clippy, so that one build of the dependencies serves both lints and code.
//!
//! `cargo clippy` is `cargo check` with clippy's driver as the compiler of the workspace's packages. The
//! driver is rustc with more lints. If cargo requests code, the driver generates it. But the driver does not
//! optimise MIR, so its code is for tests only.

use std::process::Command;

use anyhow::Result;
use hermit_toolchain::Toolchain;

/// Separator of the words in `CLIPPY_ARGS`, as `cargo clippy` has it.
const SEPARATOR: &str = "__CLIPPY_HACKERY__";

/// Makes cargo compile the packages of the workspace with clippy's driver. Warnings are errors.
///
/// # Errors
///
/// Fails if the toolchain has no clippy.
pub(crate) fn compile_with_clippy(cargo: &mut Command) -> Result<()> {
    cargo.env("RUSTC_WORKSPACE_WRAPPER", Toolchain::detect()?.program("clippy-driver", "clippy")?);
    cargo.env("CLIPPY_ARGS", ["-D", SEPARATOR, "warnings", SEPARATOR].concat());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::compile_with_clippy;
    use hermit_toolchain::process;
    use std::fs;

    const CLEAN: &str = "pub fn sum(numbers: &[u32]) -> u32 { numbers.iter().sum() }\n";

    /// A lint of rustc and one of clippy.
    const WARNINGS: [(&str, &str); 2] =
        [("fn f() {}\n", "dead_code"), ("pub fn f(x: u32) -> u32 { return x; }\n", "needless_return")];

    #[test]
    fn warnings_of_rustc_and_of_clippy_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("Cargo.toml", "[package]\nname = \"a\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n");
        let build = || {
            let mut cargo = process::cargo();
            cargo.current_dir(folder.path()).args(["build", "--offline"]).env_remove("CARGO_TARGET_DIR");
            compile_with_clippy(&mut cargo).unwrap();
            let output = cargo.output().unwrap();
            (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        write("lib.rs", CLEAN);
        let (is_built, text) = build();
        assert!(is_built && folder.path().join("target/debug/liba.rlib").is_file(), "{text}");
        for (source, lint) in WARNINGS {
            write("lib.rs", &(CLEAN.to_owned() + source));
            let (is_built, text) = build();
            assert!(!is_built && text.contains(lint), "{lint}: {text}");
        }
    }
}
