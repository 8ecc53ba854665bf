//! Building with cargo and learning which files came out.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;
use crate::setup::soft_float;
use crate::setup::toolchain::Toolchain;
use crate::workspace;

/// The target of bare-metal code: the kernel and the loader.
pub const BARE_TARGET: &str = "x86_64-unknown-none";

/// The target of programs.
pub const GUEST_TARGET: &str = "x86_64-unknown-hermit";

/// The target of programs without floating-point instructions: see [`soft_float`].
pub(crate) const SOFT_TARGET: &str = "x86_64-unknown-hermit-softfloat";

/// How a program computes with floating-point numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Float {
    /// In the processor's vector registers.
    #[default]
    Hard,
    /// By functions made of integer code: program, std and what is linked to them have no SSE, x87 or MMX instruction.
    Soft,
}

impl Float {
    /// The target that a program is built for.
    pub fn target(self) -> &'static str {
        match self {
            Self::Hard => GUEST_TARGET,
            Self::Soft => SOFT_TARGET,
        }
    }
}

/// Something that cargo built or found up to date.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Artifact {
    /// Name of the library or binary.
    pub name: String,
    /// Its files.
    pub files: Vec<PathBuf>,
    /// The file to execute, if it is a program.
    pub executable: Option<PathBuf>,
}

/// Runs `cargo build` and lists what it made. Cargo's own messages go to standard error.
pub fn artifacts(cargo: &mut Command) -> Result<Vec<Artifact>> {
    let messages = process::output(cargo.arg("--message-format=json-render-diagnostics"))?;
    messages.lines().filter_map(|line| parse(line).transpose()).collect()
}

/// Reads one of cargo's messages; `None` if it is not about an artifact.
fn parse(line: &str) -> Result<Option<Artifact>> {
    if !line.starts_with('{') {
        return Ok(None);
    }
    let message: Value = serde_json::from_str(line).context("cannot understand cargo's messages")?;
    if message["reason"] != "compiler-artifact" {
        return Ok(None);
    }
    let path = |value: &Value| value.as_str().map(PathBuf::from);
    Ok(Some(Artifact {
        name: message["target"]["name"].as_str().unwrap_or_default().to_owned(),
        files: message["filenames"].as_array().into_iter().flatten().filter_map(path).collect(),
        executable: path(&message["executable"]),
    }))
}

/// Builds the loader; quick if it is up to date.
pub fn loader() -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["build", "--quiet", "--package", "hermit-loader"]);
    cargo.args(["--profile", "kernel", "--target", BARE_TARGET]);
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    executable(&mut cargo, "the loader")
}

/// Builds the hypervisor as it is shipped; quick if it is up to date.
pub fn uhyve() -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["build", "--quiet", "--package", "uhyve"]);
    cargo.args(["--profile", "hypervisor"]);
    executable(&mut cargo, "uhyve")
}

/// Builds this tool's program `xtask`, which is also the runner; quick if it is up to date.
pub fn xtask() -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["build", "--quiet", "--package", "xtask"]);
    executable(&mut cargo, "xtask")
}

fn executable(cargo: &mut Command, name: &str) -> Result<PathBuf> {
    let artifacts = artifacts(cargo).with_context(|| format!("cannot build {name}"))?;
    let executable = artifacts.into_iter().find_map(|artifact| artifact.executable);
    executable.with_context(|| format!("cargo built {name}, but names no executable"))
}

/// Copies a program without its symbols and debugging information.
pub fn strip(program: &Path, copy: &Path) -> Result<()> {
    let toolchain = Toolchain::detect()?;
    let mut objcopy = Command::new(toolchain.host_tool("rust-objcopy")?);
    // It uses the LLVM library that rustc uses.
    objcopy.env("LD_LIBRARY_PATH", toolchain.sysroot.join("lib"));
    process::run(objcopy.arg("--strip-all").arg(program).arg(copy))
}

/// What to build for the guest, and how.
#[derive(Debug, Default, Clone)]
pub struct Options {
    /// Optimised.
    pub release: bool,
    /// Features to switch on, as cargo takes them.
    pub features: Vec<String>,
    /// The program, if the crate has several.
    pub bin: Option<String>,
    /// How it computes with floating-point numbers.
    pub float: Float,
}

/// Builds the program of the crate in `folder` for the guest. A soft-float program comes into a folder of the
/// workspace, whichever crate it is of, and std for it is built before if need be.
pub fn guest_program(folder: &Path, options: &Options) -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.current_dir(folder).args(["build", "--target", options.float.target()]);
    if options.float == Float::Soft {
        soft_float::ensure()?;
        soft_float::configure(&mut cargo);
    }
    if options.release {
        cargo.arg("--release");
    }
    for features in &options.features {
        cargo.args(["--features", features]);
    }
    if let Some(bin) = &options.bin {
        cargo.args(["--bin", bin]);
    }
    let artifacts = artifacts(&mut cargo).with_context(|| format!("cannot build {}", folder.display()))?;
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

/// A cargo command for the guest's own libraries, free of the user's flags and profile settings.
pub(crate) fn library_cargo(toolchain: &Toolchain, remap: &[(PathBuf, String)]) -> Command {
    let mut cargo = process::cargo();
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let setting = ["CARGO_PROFILE_", "CARGO_BUILD_", "CARGO_TARGET_", "CARGO_INCREMENTAL", "RUSTFLAGS"];
        if setting.iter().any(|prefix| name.starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
    // Frame pointers are for backtraces; functions that call nothing, or only end in a call, do without.
    let mut flags = [
        "-Zforce-unstable-if-unmarked",
        "-Cembed-bitcode=yes",
        "-Zunstable-options",
        "-Cforce-frame-pointers=non-leaf",
    ]
    .map(str::to_owned)
    .to_vec();
    let remaps = remap.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    flags.extend(remaps);
    cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    // Whatever rustup would choose for the folder: std must be built by the compiler that will use it.
    cargo.env("RUSTC", toolchain.sysroot.join("bin/rustc"));
    cargo.current_dir(&toolchain.sysroot);
    cargo
}

#[cfg(test)]
mod tests {
    use super::{Artifact, only_program, parse};
    use std::path::{Path, PathBuf};

    #[test]
    fn artifacts_are_read_from_messages() {
        let line = r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"x"},
            "filenames":["/t/x"],"executable":"/t/x","fresh":true}"#
            .replace('\n', "");
        let expected =
            Artifact { name: "x".into(), files: vec!["/t/x".into()], executable: Some("/t/x".into()) };
        assert_eq!(parse(&line).unwrap(), Some(expected));
        assert_eq!(parse(r#"{"reason":"build-finished","success":true}"#).unwrap(), None);
        assert_eq!(parse("something a build script printed").unwrap(), None);
        assert!(parse("{ broken").is_err());
    }

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
