//! Builds of programs for the guest.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::setup::{self, soft_float};
use crate::target::FloatAbi;
use crate::toolchain::Toolchain;
use crate::{cargo, crates, process, rust_flags, workspace};

/// Copies a program without its symbols and debug information.
pub fn strip(program: &Path, copy: &Path) -> Result<()> {
    let toolchain = Toolchain::detect()?;
    let mut objcopy = Command::new(toolchain.host_tool("rust-objcopy")?);
    // It uses the LLVM library that rustc uses.
    objcopy.env("LD_LIBRARY_PATH", toolchain.sysroot.join("lib"));
    process::run(objcopy.arg("--strip-all").arg(program).arg(copy))
}

/// How to build a program for the guest.
#[derive(Debug, Default, Clone)]
pub struct BuildOptions {
    /// Build with the release profile.
    pub release: bool,
    /// Features to enable, in cargo's syntax.
    pub features: Vec<String>,
    /// Name of the binary, if the crate has several.
    pub bin: Option<String>,
    /// Have cargo print only errors and warnings.
    pub quiet: bool,
    /// Floating-point ABI.
    pub float: FloatAbi,
}

/// Builds the program of the crate in `folder` for the guest and returns its file. The output of a soft-float program goes to
/// the target directory of this workspace, whichever crate it belongs to; std for it is built first if it is not installed.
pub fn guest_program(folder: &Path, options: &BuildOptions) -> Result<PathBuf> {
    let mut command = guest_cargo(options)?;
    if options.float == FloatAbi::Hard {
        rust_flags::configure(&mut command, folder);
    }
    let notes = crates::configure(&mut command, folder, &[], &options.features)?;
    let programs = programs(command.current_dir(folder)).with_context(|| {
        let advice =
            advice(folder, options.float, &notes).map(|advice| format!(": {advice}")).unwrap_or_default();
        format!("cannot build {}{advice}", folder.display())
    })?;
    only_program(programs, folder)
}

/// Returns what the user can do about a crate that does not build, if its dependencies say so.
fn advice(folder: &Path, float: FloatAbi, notes: &[String]) -> Option<String> {
    if !notes.is_empty() {
        return Some(notes.join("; "));
    }
    let mut tree = process::cargo();
    tree.args(["tree", "--quiet", "--prefix", "none", "--format", "{p}", "--target", float.target()]);
    let tree = process::output(tree.current_dir(folder)).ok()?;
    let kernel = match float {
        FloatAbi::Hard if setup::has_kernel() => Kernel::Installed,
        FloatAbi::Hard => Kernel::Installable,
        FloatAbi::Soft => Kernel::OfSoftFloat,
    };
    advice_for(&tree, kernel)
}

/// The kernel that a crate without `hermit-sys` is linked to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Installed,
    Installable,
    /// There is none for soft-float programs.
    OfSoftFloat,
}

/// As [`advice`], for a list of packages, one in each line, which begins with its name.
fn advice_for(tree: &str, kernel: Kernel) -> Option<String> {
    let has = |name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    if !has("hermit-sys") && kernel != Kernel::Installed {
        let remedy = match kernel {
            Kernel::OfSoftFloat => ", which soft-float programs need: add",
            _ => "; `cargo xtask setup` installs a kernel for such crates; or add",
        };
        return Some(format!(
            "the crate does not depend on hermit-sys{remedy} to its Cargo.toml\n\n    \
             [target.'cfg(target_os = \"hermit\")'.dependencies]\n    hermit-sys = {{ path = {:?} }}\n\nand to its main.rs\n\n    \
             #[cfg(target_os = \"hermit\")]\n    use hermit_sys as _;\n",
            workspace::root().join("hermit-sys")
        ));
    }
    let foreign = ["rustix", "openssl-sys"].into_iter().find(|name| has(name))?;
    Some(format!(
        "the crate depends on {foreign}, which does not build for the target: docs/compatibility.md lists what does"
    ))
}

/// Builds examples of the workspace for the guest with one run of cargo; returns their names and images.
pub fn examples(names: &[&str], options: &BuildOptions) -> Result<Vec<(String, PathBuf)>> {
    let mut command = guest_cargo(options)?;
    command.current_dir(workspace::root()).arg("--quiet");
    command.args(names.iter().flat_map(|name| ["--package", name]));
    crates::configure(&mut command, workspace::root(), names, &[])?;
    let programs = programs(&mut command).context("cannot build the examples")?;
    ensure!(programs.len() == names.len(), "cargo built {} programs of {names:?}", programs.len());
    Ok(programs)
}

/// Builds the programs of these packages of the workspace in `folder` for the guest, with the development profile; returns their
/// names and images. A folder below this workspace has its configuration.
pub fn packages(folder: &Path, packages: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let mut command = guest_cargo(&BuildOptions { quiet: true, ..BuildOptions::default() })?;
    command.current_dir(folder).args(packages.iter().flat_map(|package| ["--package", package]));
    let notes = crates::configure(&mut command, folder, packages, &[])?;
    programs(&mut command).with_context(|| format!("cannot build {packages:?}: {}", notes.join("; ")))
}

/// `cargo build` of the program of the crate in `folder` for the guest, with the development profile.
pub fn cargo_of_package(folder: &Path) -> Result<Command> {
    let mut command = guest_cargo(&BuildOptions::default())?;
    command.current_dir(folder);
    rust_flags::configure(&mut command, folder);
    crates::configure(&mut command, folder, &[], &[])?;
    Ok(command)
}

/// Runs `cargo build` and returns the programs that it built, with their names.
fn programs(command: &mut Command) -> Result<Vec<(String, PathBuf)>> {
    let artifacts = cargo::artifacts(command)?.into_iter();
    Ok(artifacts.filter_map(|artifact| Some((artifact.name, artifact.executable?))).collect())
}

/// `cargo build` for the guest, with all options but the selection of packages.
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
    if let Some(bin) = &options.bin {
        command.args(["--bin", bin]);
    }
    Ok(command)
}

fn only_program(mut programs: Vec<(String, PathBuf)>, folder: &Path) -> Result<PathBuf> {
    match (programs.pop(), programs.as_slice()) {
        (Some((_, program)), []) => Ok(program),
        (None, _) => bail!("{} has no program to boot: it builds no binary", folder.display()),
        (Some((last, _)), others) => {
            let names: Vec<_> = others.iter().map(|(name, _)| name.as_str()).chain([last.as_str()]).collect();
            bail!(
                "{} has several programs: choose one with `--bin NAME` out of {}",
                folder.display(),
                names.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kernel, advice_for, only_program};
    use std::path::{Path, PathBuf};

    #[test]
    fn advice_follows_from_dependencies() {
        let own = "kv v0.1.0 (/kv)\nserde v1.0.0\n";
        let missing = advice_for(own, Kernel::Installable).unwrap();
        assert!(missing.contains("`cargo xtask setup`"), "{missing}");
        let soft = advice_for(own, Kernel::OfSoftFloat).unwrap();
        assert!(soft.contains("soft-float programs need") && !soft.contains("setup"), "{soft}");
        for advice in [missing, soft] {
            assert!(
                advice.contains("hermit-sys = { path = \"/") && advice.contains("use hermit_sys as _;"),
                "{advice}"
            );
        }
        assert_eq!(advice_for(own, Kernel::Installed), None);
        for name in ["hermit-sys", "serde"] {
            let tree = format!("kv v0.1.0\n{name} v0.1.0\nnative-tls v0.2.0\nopenssl-sys v0.9.0\n");
            let foreign = advice_for(&tree, Kernel::Installed).unwrap();
            assert!(
                foreign.contains("openssl-sys") && foreign.contains("docs/compatibility.md"),
                "{foreign}"
            );
        }
        assert_eq!(advice_for("kv v0.1.0\nhermit-sys v0.1.0\n", Kernel::OfSoftFloat), None);
    }

    #[test]
    fn only_program_rejects_none_and_several() {
        let program = |name: &str| (name.to_owned(), PathBuf::from("/t").join(name));
        let folder = Path::new("/f");
        assert_eq!(only_program(vec![program("a")], folder).unwrap(), Path::new("/t/a"));
        assert!(only_program(vec![], folder).unwrap_err().to_string().contains("no program"));
        let message = only_program(vec![program("a"), program("b")], folder).unwrap_err().to_string();
        assert!(message.contains("--bin NAME") && message.contains("a, b"), "{message}");
    }
}
