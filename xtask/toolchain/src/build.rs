//! Builds of programs for the guest.
//!
//! A program is built by cargo, with the target of the guest. Before cargo runs, this module provides
//! everything that the build needs: std for the target, a kernel to link to, patched crates, a C library for
//! crates that compile C, and flags for the linker. A program gets its kernel in one of two ways. If it
//! depends on `hermit-sys`, cargo builds the kernel from this repository; otherwise the linker takes the
//! kernel that set-up has installed with std. If cargo fails, the error names a likely reason, such as a
//! crate that does not support the target.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::package::{Binary, Package};
use crate::quote::toml_string;
use crate::setup::{self, soft_float};
use crate::target::FloatAbi;
use crate::toolchain::Toolchain;
use crate::usage::usage_error;
use crate::{cargo, crates, process, rust_flags, workspace};

/// The crate on which a program depends to get its own kernel.
const KERNEL_CRATE: &str = "hermit-sys";

/// Copies a program without its symbols and debug information.
pub fn strip(program: &Path, copy: &Path) -> Result<()> {
    let toolchain = Toolchain::detect()?;
    let mut objcopy = Command::new(toolchain.host_tool("rust-objcopy")?);
    // objcopy loads the LLVM library of rustc.
    objcopy.env("LD_LIBRARY_PATH", toolchain.sysroot.join("lib"));
    process::run(objcopy.arg("--strip-all").arg(program).arg(copy))
}

/// Options of a build for the guest.
#[derive(Debug, Default, Clone)]
pub struct BuildOptions {
    /// Build with the release profile.
    pub release: bool,
    /// Features to enable, in cargo's syntax.
    pub features: Vec<String>,
    /// Have cargo print only errors and warnings.
    pub quiet: bool,
    /// Floating-point ABI.
    pub float: FloatAbi,
}

/// Builds the program of the crate in `folder` for the guest and returns its file.
pub fn guest_program(folder: &Path, options: &BuildOptions) -> Result<PathBuf> {
    let package = Package::of(folder)?;
    let package =
        package.with_context(|| format!("{} is a workspace without a program", folder.display()))?;
    binary(&package.binary(None)?, options)
}

/// Builds a binary for the guest and returns its file. First installs missing parts that the build needs: std
/// for a soft-float program, or the kernel for a crate that does not depend on `hermit-sys`. The output of a
/// soft-float program goes to the target directory of this workspace, even if the crate is outside of the
/// workspace.
pub fn binary(binary: &Binary, options: &BuildOptions) -> Result<PathBuf> {
    let folder = &binary.folder;
    let dependencies = crates::names(folder, &[], &options.features)?;
    provide_kernel(folder, &dependencies, options.float)?;
    let mut command = guest_cargo(options)?;
    command.current_dir(folder).args(["--package", &binary.package, "--bin", &binary.name]);
    if options.float == FloatAbi::Hard {
        rust_flags::configure(&mut command, folder);
    }
    let notes = crates::configure(&mut command, folder, &[], &options.features, &dependencies)?;
    let programs = programs(&mut command).with_context(|| {
        let advice = advice(&notes, &dependencies).map(|advice| format!(": {advice}")).unwrap_or_default();
        format!("cannot build {}{advice}", folder.display())
    })?;
    let program = programs.into_iter().find(|(name, _)| *name == binary.name);
    program
        .map(|(_, file)| file)
        .with_context(|| format!("cargo built {}, but names no executable", binary.name))
}

/// Makes sure that there is a kernel to link to. Without a kernel, the build would fail late: in the linker,
/// after all crates are compiled.
fn provide_kernel(folder: &Path, dependencies: &HashSet<String>, float: FloatAbi) -> Result<()> {
    if dependencies.contains(KERNEL_CRATE) {
        return Ok(());
    }
    match float {
        FloatAbi::Hard => setup::ensure_kernel().with_context(|| {
            format!("there is no kernel for a crate that does not depend on {KERNEL_CRATE}; {}", additions())
        }),
        FloatAbi::Soft => Err(usage_error(format!(
            "{} does not depend on {KERNEL_CRATE}, which soft-float programs need; {}",
            folder.display(),
            additions()
        ))),
    }
}

/// Returns the lines that a user has to add to a crate, so that it depends on the kernel.
fn additions() -> String {
    format!(
        "add to its Cargo.toml\n\n    [target.'cfg(target_os = \"hermit\")'.dependencies]\n    \
         {KERNEL_CRATE} = {{ path = {} }}\n\nand to its main.rs\n\n    \
         #[cfg(target_os = \"hermit\")]\n    use hermit_sys as _;\n",
        toml_string(workspace::root().join(KERNEL_CRATE))
    )
}

/// Returns advice for a crate that does not build, if its dependencies are the likely reason.
fn advice(notes: &[String], dependencies: &HashSet<String>) -> Option<String> {
    if !notes.is_empty() {
        return Some(notes.join("; "));
    }
    let foreign = ["rustix", "openssl-sys"].into_iter().find(|name| dependencies.contains(*name))?;
    Some(format!(
        "the crate depends on {foreign}, which does not build for the target: docs/compatibility.md lists what does"
    ))
}

/// Builds examples of this workspace for the guest with one run of cargo, and returns their names and images.
pub fn examples(names: &[&str], options: &BuildOptions) -> Result<Vec<(String, PathBuf)>> {
    let mut command = guest_cargo(options)?;
    command.current_dir(workspace::root()).arg("--quiet");
    command.args(names.iter().flat_map(|name| ["--package", name]));
    configure_packages(&mut command, workspace::root(), names)?;
    let programs = programs(&mut command).context("cannot build the examples")?;
    ensure!(programs.len() == names.len(), "cargo built {} programs of {names:?}", programs.len());
    Ok(programs)
}

/// Builds the programs of `packages` in the workspace `folder` for the guest, with the development profile,
/// and returns their names and images. If the folder is below this workspace, cargo also reads this
/// workspace's configuration.
pub fn packages(folder: &Path, packages: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let mut command = guest_cargo(&BuildOptions { quiet: true, ..BuildOptions::default() })?;
    command.current_dir(folder).args(packages.iter().flat_map(|package| ["--package", package]));
    let notes = configure_packages(&mut command, folder, packages)?;
    programs(&mut command).with_context(|| format!("cannot build {packages:?}: {}", notes.join("; ")))
}

/// Makes the build use patched dependencies of `packages` in the workspace `folder`. Returns messages that
/// may explain a failure of the build.
fn configure_packages(command: &mut Command, folder: &Path, packages: &[&str]) -> Result<Vec<String>> {
    let dependencies = crates::names(folder, packages, &[])?;
    crates::configure(command, folder, packages, &[], &dependencies)
}

/// Returns the command `cargo build` for the program of the crate in `folder`, for the guest and with the
/// development profile.
pub fn cargo_of_package(folder: &Path) -> Result<Command> {
    let mut command = guest_cargo(&BuildOptions::default())?;
    command.current_dir(folder);
    rust_flags::configure(&mut command, folder);
    configure_packages(&mut command, folder, &[])?;
    Ok(command)
}

/// Runs `cargo build` and returns the programs that it built, with their names.
fn programs(command: &mut Command) -> Result<Vec<(String, PathBuf)>> {
    let artifacts = cargo::artifacts(command)?.into_iter();
    Ok(artifacts.filter_map(|artifact| Some((artifact.name, artifact.executable?))).collect())
}

/// Returns the command `cargo build` for the guest, with all options except the selection of packages.
fn guest_cargo(options: &BuildOptions) -> Result<Command> {
    let mut command = process::cargo();
    command.args(["build", "--target", options.float.target()]);
    if options.float == FloatAbi::Soft {
        setup::ensure_soft_float()?;
        soft_float::configure(&mut command);
    }
    if options.quiet {
        command.arg("--quiet");
    }
    if options.release {
        command.arg("--release");
    }
    for features in &options.features {
        command.args(["--features", features]);
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::{advice, provide_kernel};
    use crate::target::FloatAbi;
    use crate::usage::UsageError;
    use std::collections::HashSet;

    fn names(names: &[&str]) -> HashSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn advice_follows_from_dependencies() {
        let foreign = advice(&[], &names(&["kv", "native-tls", "openssl-sys"])).unwrap();
        assert!(foreign.contains("openssl-sys") && foreign.contains("docs/compatibility.md"), "{foreign}");
        assert_eq!(advice(&[], &names(&["kv", "hermit-sys"])), None);
        assert_eq!(advice(&["a".to_owned(), "b".to_owned()], &names(&["rustix"])).unwrap(), "a; b");
    }

    #[test]
    fn soft_float_crate_without_a_kernel_is_rejected_before_the_build() {
        let provide =
            |dependencies: &[&str]| provide_kernel("/crate".as_ref(), &names(dependencies), FloatAbi::Soft);
        assert!(provide(&["kv", "hermit-sys"]).is_ok());
        let error = provide(&["kv"]).unwrap_err();
        assert!(error.is::<UsageError>());
        let text = error.to_string();
        for part in ["soft-float programs need", "hermit-sys = { path = \"/", "use hermit_sys as _;"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
