//! The compiled libraries: std for programs, core and alloc for the kernel and the loader.
//!
//! rustc finds the libraries of a target in the sysroot, in `lib/rustlib/TARGET/lib`. rustup has no libraries
//! for the guest's target, so set-up compiles std from the patched [`Sources`] and puts the files there. core
//! and alloc for bare metal come from rustup if rustup provides them. After the files, set-up writes a stamp
//! with a digest of all inputs (the key) and the sizes of the files. If the current key or a file differs
//! from the stamp, the libraries are out of date or damaged, and set-up builds them again.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::abort;
use super::c_library;
use super::default_kernel;
use super::files;
use super::library_cargo;
use super::progress::Task;
use super::record::{self, Addition, Record};
use super::rustup;
use super::soft_float;
use super::sources::{self, Sources};
use super::stamp::{Stamp, State};
use super::unwinder;
use crate::cargo;
use crate::digest::hex;
use crate::target::{BARE_TARGET, FloatAbi};
use crate::toolchain::{Toolchain, file_names};

/// Version of the build process. To increase it makes all installed libraries out of date.
const VERSION: u32 = 3;

/// Effect of a panic in code that uses the libraries. A program that aborts can use libraries that unwind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Panic {
    Abort,
    Unwind,
}

/// Libraries of a complete bare-metal target: the beginnings of their file names.
const BARE_LIBRARIES: [&str; 3] = ["libcore-", "liballoc-", "libcompiler_builtins-"];

/// Returns a digest of everything that determines the compiled std.
fn std_key(toolchain: &Toolchain, float: FloatAbi) -> Result<String> {
    let (abi, patches) = (sources::abi_digest()?, sources::patches_digest()?);
    let mut inputs = format!("{VERSION}\n{}\n{abi}\n{patches}", toolchain.identity);
    if float == FloatAbi::Soft {
        inputs.extend(["\n", soft_float::FEATURES]);
    }
    Ok(hex(&Sha256::digest(inputs)))
}

/// Returns a digest of everything that determines the compiled core and alloc.
fn bare_key(toolchain: &Toolchain) -> String {
    hex(&Sha256::digest(format!("{VERSION}\n{}", toolchain.identity)))
}

/// Compares the installed std for programs with its stamp and with the current key.
pub(crate) fn std_state(toolchain: &Toolchain, float: FloatAbi) -> Result<State> {
    let stamp = record::stamp(&toolchain.records(), record::std_part(float));
    Ok(Stamp::compare(&stamp, &std_key(toolchain, float)?, &toolchain.target(float.target())))
}

/// Compares the installed core and alloc for bare metal with their stamp and with the current key. The result
/// does not depend on whether set-up or the user installed them.
pub(crate) fn bare_state(toolchain: &Toolchain) -> State {
    let stamp = record::stamp(&toolchain.records(), "bare");
    Stamp::compare(&stamp, &bare_key(toolchain), &toolchain.target(BARE_TARGET))
}

/// Builds std for programs and installs it.
pub(crate) fn install_std(
    toolchain: &Toolchain,
    record: &Record,
    sources: &Sources,
    float: FloatAbi,
    task: Task<'_>,
) -> Result<()> {
    let key = std_key(toolchain, float)?;
    let target = float.target();
    let folder = toolchain.target(target);
    if folder.exists() && !record.has(Addition::Folder(target)) {
        bail!(
            "{} exists and was not installed by this tool: uninstall that standard library or move the folder away",
            folder.display()
        );
    }
    // There are no test executables without floating-point instructions. So their std needs neither the crate
    // `test` nor `proc_macro`.
    let package = match float {
        FloatAbi::Hard => "sysroot",
        FloatAbi::Soft => "std",
    };
    let manifest = sources.library().join(package).join("Cargo.toml");
    record.add(Addition::Folder(target))?;
    let specification = match float {
        FloatAbi::Hard => None,
        FloatAbi::Soft => Some(soft_float::specify(toolchain)?),
    };
    let features = "panic-unwind,compiler-builtins-mem";
    let panic = match float {
        FloatAbi::Hard => Panic::Unwind,
        FloatAbi::Soft => Panic::Abort,
    };
    let built = compile(toolchain, sources, &manifest, (target, features, panic), task)?;
    let built = abort::prepare(toolchain, &sources.build_dir().join(target).join("weak"), built)?;
    install(&folder, &built, specification, key, &record.stamp(record::std_part(float)))
}

/// Provides core and alloc for bare metal: through rustup, else from the sources.
pub(crate) fn install_bare(toolchain: &Toolchain, record: &Record, task: Task<'_>) -> Result<()> {
    let folder = toolchain.target(BARE_TARGET);
    let state = bare_state(toolchain);
    let ours = [Addition::RustupTarget(BARE_TARGET), Addition::Folder(BARE_TARGET)];
    let foreign = folder.exists() && !ours.iter().any(|addition| record.has(*addition));
    if foreign && matches!(state, State::Damaged(_)) {
        bail!(
            "{state}; it was not installed by this tool: `rustup target remove {BARE_TARGET}` and \
             `rustup target add {BARE_TARGET}` repair it"
        );
    }
    // rustup's libraries always match its compiler. Libraries that set-up built may be from an older
    // compiler.
    let stale = state == State::Outdated && record.has(Addition::Folder(BARE_TARGET));
    let complete = is_complete(&folder) && !matches!(state, State::Damaged(_)) && !stale;
    if !complete && let Err(error) = rustup::add(toolchain, record, BARE_TARGET, is_complete) {
        task.note(&format!(
            "rustup does not provide {BARE_TARGET} ({error:#}); building it from the sources"
        ));
        return build_bare(toolchain, record, task);
    }
    stamp_bare(toolchain, record)
}

fn stamp_bare(toolchain: &Toolchain, record: &Record) -> Result<()> {
    let folder = toolchain.target(BARE_TARGET);
    let files = file_names(&folder.join("lib")).into_iter().map(|file| Path::new("lib").join(file));
    let files: Vec<_> = files.collect();
    Stamp::of(bare_key(toolchain), &folder, &files)?.save(&record.stamp("bare"))
}

fn is_complete(folder: &Path) -> bool {
    let names = file_names(&folder.join("lib"));
    BARE_LIBRARIES.iter().all(|library| names.iter().any(|name| name.to_string_lossy().starts_with(library)))
}

fn build_bare(toolchain: &Toolchain, record: &Record, task: Task<'_>) -> Result<()> {
    let sources = Sources::prepare(toolchain, record, task)?;
    let manifest = sources.library().join("alloc/Cargo.toml");
    let built =
        compile(toolchain, &sources, &manifest, (BARE_TARGET, "compiler-builtins-mem", Panic::Abort), task)?;
    record.add(Addition::Folder(BARE_TARGET))?;
    install(&toolchain.target(BARE_TARGET), &built, None, bare_key(toolchain), &record.stamp("bare"))
}

/// Installs libraries in the folder of a target and writes their stamp. The stamp also covers `other`, a file
/// that is in the folder already.
fn install(
    folder: &Path,
    built: &[PathBuf],
    other: Option<PathBuf>,
    key: String,
    stamp: &Path,
) -> Result<()> {
    files::replace_dir(&folder.join("lib"), built)?;
    let files = built.iter().filter(|file| !default_kernel::is_library(file) && !c_library::is_library(file));
    let names = files.filter_map(|file| Some(Path::new("lib").join(file.file_name()?)));
    Stamp::of(key, folder, &names.chain(other).collect::<Vec<_>>())?.save(stamp)
}

/// Compiles a package of the standard library and returns the files to install.
fn compile(
    toolchain: &Toolchain,
    sources: &Sources,
    manifest: &Path,
    (target, features, panic): (&str, &str, Panic),
    task: Task<'_>,
) -> Result<Vec<PathBuf>> {
    let commit = toolchain.commit().unwrap_or_else(|| toolchain.release());
    let mut remap = vec![
        (sources.library(), format!("/rustc/{commit}/library")),
        (sources.abi(), "/hermit-abi".to_owned()),
        (sources.unwinder(), format!("/rust/deps/{}", unwinder::CRATE)),
    ];
    if let Some(home) = cargo_home() {
        remap.push((home.join("registry/src"), "/rust/deps".to_owned()));
    }
    let mut command = library_cargo::command(toolchain, &remap);
    command.args(["build", "--locked", "--release", "--target", target, "--features", features]);
    command.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(sources.build_dir());
    if panic == Panic::Unwind {
        // The flag is set in the profile, not for all crates by `RUSTFLAGS`: for the crate `panic_abort`, the
        // library's manifest sets another flag, which must take precedence.
        command.args(["-Zprofile-rustflags", "--config", "profile.release.rustflags=['-Cpanic=unwind']"]);
    }
    command.current_dir(sources.library());
    let artifacts = cargo::artifacts_with_progress(&mut command, task).with_context(|| {
        format!(
            "cannot build the standard library for {target}; \
             if a download failed: its few dependencies come from crates.io, which must be reachable once"
        )
    })?;
    let output = sources.build_dir().join(target);
    let files = artifacts.into_iter().filter(|artifact| artifact.name != "sysroot");
    let files: Vec<_> =
        files.flat_map(|artifact| pair(artifact.files)).filter(|file| file.starts_with(&output)).collect();
    if files.is_empty() {
        bail!("cargo built no library for {target} in {}", output.display());
    }
    Ok(files)
}

/// Returns the files of a library, which must have the same name except for the extension. Cargo's copy of a
/// library (`libstd.rlib`) has a shorter name than the metadata (`libstd-HASH.rmeta`), and rustc would treat
/// the two as different libraries. So the copy is replaced by the original (`libstd-HASH.rlib`).
fn pair(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let is = |file: &Path, extension| file.extension().is_some_and(|found| found == extension);
    let Some(metadata) = files.iter().find(|file| is(file, "rmeta")).cloned() else { return files };
    let library = metadata.with_extension("rlib");
    let original =
        |file: PathBuf| if is(&file, "rlib") && library.is_file() { library.clone() } else { file };
    files.into_iter().map(original).collect()
}

/// Returns cargo's home folder.
pub(super) fn cargo_home() -> Option<PathBuf> {
    match std::env::var_os("CARGO_HOME") {
        Some(home) if !home.is_empty() => Some(PathBuf::from(home)),
        _ => Some(std::env::home_dir()?.join(".cargo")),
    }
}

#[cfg(test)]
mod tests {
    use super::pair;
    use std::fs;

    #[test]
    fn pair_gives_library_and_metadata_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        for name in ["liba.rlib", "liba-1.rlib", "liba-1.rmeta"] {
            fs::write(file(name), "").unwrap();
        }
        let paired = pair(vec![file("liba.rlib"), file("liba-1.rmeta")]);
        assert_eq!(paired, [file("liba-1.rlib"), file("liba-1.rmeta")]);
        assert_eq!(pair(vec![file("libstd.rlib")]), [file("libstd.rlib")]);
    }
}
