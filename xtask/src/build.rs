//! Builds of programs for the guest.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::setup::{self, soft_float};
use crate::target::FloatAbi;
use crate::toolchain::Toolchain;
use crate::{cargo, process};

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
    /// Floating-point ABI.
    pub float: FloatAbi,
}

/// Builds the program of the crate in `folder` for the guest and returns its file. The output of a soft-float program goes to
/// the target directory of this workspace, whichever crate it belongs to; std for it is built first if it is not installed.
pub fn guest_program(folder: &Path, options: &BuildOptions) -> Result<PathBuf> {
    let mut command = process::cargo();
    command.current_dir(folder).args(["build", "--target", options.float.target()]);
    if options.float == FloatAbi::Soft {
        setup::ensure_soft_float()?;
        soft_float::configure(&mut command);
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
    let artifacts =
        cargo::artifacts(&mut command).with_context(|| format!("cannot build {}", folder.display()))?;
    let programs = artifacts.into_iter().filter_map(|artifact| Some((artifact.name, artifact.executable?)));
    only_program(programs.collect(), folder)
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
    use super::only_program;
    use std::path::{Path, PathBuf};

    #[test]
    fn one_program_must_be_meant() {
        let program = |name: &str| (name.to_owned(), PathBuf::from("/t").join(name));
        let folder = Path::new("/f");
        assert_eq!(only_program(vec![program("a")], folder).unwrap(), Path::new("/t/a"));
        assert!(only_program(vec![], folder).unwrap_err().to_string().contains("no program"));
        let message = only_program(vec![program("a"), program("b")], folder).unwrap_err().to_string();
        assert!(message.contains("--bin NAME") && message.contains("a, b"), "{message}");
    }
}
