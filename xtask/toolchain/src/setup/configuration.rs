//! Cargo's configuration for crates outside the workspace: the runner, and flags of rustc.

mod text;
mod variables;

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::c_library;
use super::library::cargo_home;
use super::record::Record;
use super::tools;
use crate::quote::toml_string;
use crate::rust_flags;
use crate::target::GUEST_TARGET;
use crate::toolchain::Toolchain;

/// Prints the lines for the user's configuration, ready to be pasted.
pub(super) fn explain(toolchain: &Toolchain) -> Result<()> {
    let (file, section) = (file()?, section(toolchain));
    if read(&file).and_then(|text| text::with(&text, &section)).is_ok_and(|new| new.is_none()) {
        eprintln!("{} lets cargo's own commands run programs for {GUEST_TARGET}.", file.display());
    } else {
        eprintln!(
            "For cargo's own commands with `--target {GUEST_TARGET}` in any crate, add to {}\n\
             (`cargo xtask setup --configure` does it):\n\n{section}",
            file.display()
        );
    }
    let compilers = c_library::installed(toolchain);
    if !compilers.is_empty() && variables::with(&read(&file)?, &compilers).is_ok_and(|new| new.is_some()) {
        eprintln!("For crates that compile C, add to it as well:\n\n{}", variables::section(&compilers));
    }
    Ok(())
}

/// Adds the lines to the user's configuration, and removes those of an earlier set-up.
pub(super) fn add(toolchain: &Toolchain) -> Result<()> {
    // An error is ignored: if the toolchain is read-only, the configuration can be changed nevertheless.
    let _lock = Record::open(toolchain);
    let file = file()?;
    add_to(&file, &section(toolchain))?;
    let compilers = c_library::installed(toolchain);
    if !compilers.is_empty() {
        let new = variables::with(&read(&file)?, &compilers)
            .with_context(|| format!("cannot change {}", file.display()))?;
        new.map_or(Ok(()), |new| write(&file, &new))?;
    }
    eprintln!("{} lets cargo's own commands run programs for {GUEST_TARGET}.", file.display());
    Ok(())
}

/// Removes the lines from the user's configuration, if they are there. The caller holds the set-up lock.
pub(super) fn remove(toolchain: &Toolchain) -> Result<()> {
    let file = file()?;
    if let Some(new) =
        variables::without(&read(&file)?).with_context(|| format!("cannot change {}", file.display()))?
    {
        write(&file, &new)?;
    }
    let own = tools::runner(toolchain);
    if remove_from(&file, |runner| runner == own || !runner.exists())? {
        eprintln!("warning: {} keeps other lines for {GUEST_TARGET}", file.display());
    }
    Ok(())
}

/// Returns the file of the user's configuration of cargo.
fn file() -> Result<PathBuf> {
    Ok(file_in(&cargo_home().context("there is no home folder for cargo's configuration")?))
}

/// Returns the file in cargo's folder `home` that cargo reads: `config` if it exists, otherwise
/// `config.toml`.
fn file_in(home: &Path) -> PathBuf {
    let old = home.join("config");
    if old.exists() { old } else { home.join("config.toml") }
}

fn section(toolchain: &Toolchain) -> String {
    let runner = toml_string(tools::runner(toolchain));
    format!("[target.{GUEST_TARGET}]\nrunner = [{runner}, \"runner\"]\n{}\n", rust_flags::FLAGS)
}

/// Adds a section to a file, unless the file has it. Fails if the file has another section for the target.
fn add_to(file: &Path, section: &str) -> Result<()> {
    let new =
        text::with(&read(file)?, section).with_context(|| format!("cannot change {}", file.display()))?;
    new.map_or(Ok(()), |new| write(file, &new))
}

/// Removes the section with a runner for which `is_removed` returns true. Returns true if the file still has
/// a section for the target.
fn remove_from(file: &Path, is_removed: impl Fn(&Path) -> bool) -> Result<bool> {
    let old = read(file)?;
    let new = text::without(&old, is_removed).with_context(|| format!("cannot change {}", file.display()))?;
    let Some(new) = new else { return Ok(text::has_section(&old)) };
    if new.trim().is_empty() && !file.is_symlink() {
        fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    } else {
        write(file, &new)?;
    }
    Ok(text::has_section(&new))
}

fn read(file: &Path) -> Result<String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        result => result.with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Replaces a file atomically, or creates it. The file keeps its permissions, and symbolic links to it stay.
fn write(file: &Path, text: &str) -> Result<()> {
    let replace = || match fs::canonicalize(file) {
        Ok(file) => {
            let mut new = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(&file))?;
            new.write_all(text.as_bytes())?;
            new.as_file().set_permissions(fs::metadata(&file)?.permissions())?;
            new.as_file().sync_all()?;
            new.persist(&file)?;
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(file.parent().unwrap_or(file))?;
            fs::write(file, text)
        }
        Err(error) => Err(error),
    };
    replace().with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::{add_to, file_in, remove_from};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    const SECTION: &str = "[target.x86_64-unknown-hermit]\nrunner = [\"/r/hermit-runner\", \"runner\"]\n";

    #[test]
    fn file_is_made_and_removed_with_its_only_section() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("home/config.toml");
        assert!(!remove_from(&file, |_| true).unwrap());
        add_to(&file, SECTION).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), SECTION);
        assert!(remove_from(&file, |_| false).unwrap());
        assert!(!remove_from(&file, |_| true).unwrap());
        assert!(!file.exists());
    }

    #[test]
    fn link_and_permissions_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("dotfile"), folder.path().join("config.toml"));
        fs::write(&file, "[net]\n").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        add_to(&link, SECTION).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("[net]\n\n{SECTION}"));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(!remove_from(&link, |_| true).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "[net]\n");
    }

    #[test]
    fn file_with_the_old_name_is_the_one_that_cargo_reads() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(file_in(folder.path()), folder.path().join("config.toml"));
        fs::write(folder.path().join("config"), "").unwrap();
        assert_eq!(file_in(folder.path()), folder.path().join("config"));
    }
}
