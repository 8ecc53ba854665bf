//! `cargo xtask`: makes cargo build the build tool `xtask`, and then replaces itself by `xtask`.
//!
//! The build tool has dependencies that take half a minute to compile, and the alias `cargo xtask` is quiet.
//! This program has no dependencies, so within the first second it prints that the build tool is being built.
//! Once the build tool exists, this program compares modification times of files as cargo does. If the build
//! tool is up to date, it starts the tool without a run of cargo.

#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::io::{Error, Result};
use std::num::NonZero;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::SystemTime;

/// CPU time of the build of the build tool, in seconds.
const BUILD_SECONDS: usize = 40;

/// Files of the workspace on which the build tool also depends, although cargo does not list them as its
/// sources.
const WORKSPACE_FILES: [&str; 3] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];

fn main() -> ExitCode {
    match launch() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: cannot start the build tool: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the build tool if it is out of date, and replaces this process by it. Returns only on an error.
fn launch() -> Result<ExitCode> {
    // The workspace's configuration of cargo sets this variable, and cargo tracks it: if the repository is
    // moved, cargo compiles this program again.
    let xtask = option_env!("HERMIT_XTASK").unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let root = Path::new(xtask).join("..").canonicalize()?;
    let xtask = env::current_exe()?.with_file_name("xtask");
    if !is_current(&xtask, &root) && !build(&root, !xtask.exists())? {
        return Ok(ExitCode::FAILURE);
    }
    Err(Command::new(xtask).args(env::args_os().skip(1)).exec())
}

/// Builds the build tool with cargo. Returns false if the build fails. Cargo's output is visible only at the
/// first build.
fn build(root: &Path, is_first: bool) -> Result<bool> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--profile", "tools", "--package", "xtask", "--manifest-path"])
        .arg(root.join("Cargo.toml"));
    if is_first {
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        eprintln!(
            "Compiling the build tool first, once: about {} s with {cpus} CPUs. Then the command itself starts.",
            BUILD_SECONDS.div_ceil(cpus.min(4))
        );
    } else {
        cargo.arg("--quiet");
    }
    Ok(cargo.status()?.success())
}

/// Returns true if the executable is newer than all its sources and than [`WORKSPACE_FILES`]. Cargo lists the
/// sources in the `.d` file beside the executable.
fn is_current(executable: &Path, root: &Path) -> bool {
    let Ok(built) = modified(executable) else { return false };
    let Ok(list) = fs::read_to_string(executable.with_extension("d")) else { return false };
    let sources = sources(&list);
    // If the target folder was copied from another repository, the executable was built from that
    // repository's sources.
    if !sources.iter().any(|source| source.starts_with(root)) {
        return false;
    }
    let sources = sources.into_iter();
    let mut files = sources.chain(WORKSPACE_FILES.map(|file| root.join(file)));
    files.all(|file| modified(&file).is_ok_and(|time| time < built))
}

fn modified(file: &Path) -> Result<SystemTime> {
    fs::metadata(file)?.modified().map_err(Error::other)
}

/// Returns the files in the rule `OUTPUT: FILE FILE ...` of a makefile. A backslash precedes each blank in a
/// name.
fn sources(rule: &str) -> Vec<PathBuf> {
    let Some((_, files)) = rule.split_once(": ") else { return Vec::new() };
    // No file name contains a null character.
    let files = files.replace("\\ ", "\0");
    files.split_whitespace().map(|file| PathBuf::from(file.replace('\0', " "))).collect()
}

#[cfg(test)]
mod tests {
    use super::{is_current, sources};
    use std::fs::{self, File};
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime};

    #[test]
    fn sources_are_read_from_a_rule_with_blanks_in_names() {
        let expected = ["/a b/c.rs", "/d.rs"].map(PathBuf::from);
        assert_eq!(sources("/t t/x: /a\\ b/c.rs /d.rs\n"), expected);
        assert!(sources("no rule").is_empty());
    }

    #[test]
    fn executable_is_current_unless_a_file_is_younger_or_missing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let (executable, source) = (root.join("xtask"), root.join("main.rs"));
        let write = |file: &Path, text: &str, age: u64| {
            fs::write(file, text).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            File::open(file).unwrap().set_modified(time).unwrap();
        };
        for file in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
            write(&root.join(file), "", 20);
        }
        write(&source, "", 20);
        write(&executable.with_extension("d"), &format!("x: {}\n", source.display()), 10);
        assert!(!is_current(&executable, root));
        write(&executable, "", 10);
        assert!(is_current(&executable, root));
        write(&source, "", 5);
        assert!(!is_current(&executable, root));
        fs::remove_file(&source).unwrap();
        assert!(!is_current(&executable, root));
    }

    #[test]
    fn executable_of_another_repository_is_not_current() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let executable = folder.path().join("xtask");
        for file in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        let source = other.path().join("main.rs");
        fs::write(&source, "").unwrap();
        fs::write(executable.with_extension("d"), format!("x: {}\n", source.display())).unwrap();
        fs::write(&executable, "").unwrap();
        let time = SystemTime::now() + Duration::from_secs(10);
        File::open(&executable).unwrap().set_modified(time).unwrap();
        assert!(!is_current(&executable, folder.path()));
        let list = format!("x: {} {}\n", source.display(), folder.path().join("Cargo.toml").display());
        fs::write(executable.with_extension("d"), list).unwrap();
        assert!(is_current(&executable, folder.path()));
    }
}
