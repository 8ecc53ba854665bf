//! Cargo's configuration for crates outside the workspace: the runner, and the flag that lets panics unwind.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::library::cargo_home;
use super::tools;
use crate::panics;
use crate::target::GUEST_TARGET;
use crate::toolchain::Toolchain;

/// Prints the lines for the user's configuration.
pub(super) fn explain(toolchain: &Toolchain) {
    eprintln!(
        "For cargo's own commands with `--target {GUEST_TARGET}` in any crate, add to ~/.cargo/config.toml\n\
         (`cargo xtask setup --configure` does it):"
    );
    section(toolchain).lines().for_each(|line| eprintln!("    {line}"));
}

/// Adds the lines to the user's configuration.
pub(super) fn add(toolchain: &Toolchain) -> Result<()> {
    let file = file()?;
    add_to(&file, &section(toolchain))?;
    eprintln!("{} lets cargo's own commands run programs for {GUEST_TARGET}.", file.display());
    Ok(())
}

/// Removes the lines from the user's configuration, if they are there.
pub(super) fn remove(toolchain: &Toolchain) -> Result<()> {
    remove_from(&file()?, &section(toolchain))
}

/// The user's configuration of cargo.
fn file() -> Result<PathBuf> {
    Ok(cargo_home().context("there is no home folder for cargo's configuration")?.join("config.toml"))
}

fn section(toolchain: &Toolchain) -> String {
    let runner = tools::runner(toolchain).display().to_string();
    format!("[target.{GUEST_TARGET}]\nrunner = [{runner:?}, \"runner\"]\n{}\n", panics::FLAGS)
}

/// Adds a section to a file, unless the file has it. Fails if the file has another section for the target.
fn add_to(file: &Path, section: &str) -> Result<()> {
    let text = read(file)?;
    if text.contains(section) {
        return Ok(());
    }
    if text.contains(GUEST_TARGET) {
        bail!("{} has other lines for {GUEST_TARGET}: replace them by\n{section}", file.display());
    }
    let gap = if text.is_empty() || text.ends_with("\n\n") { "" } else { "\n" };
    write(file, &format!("{text}{gap}{section}"))
}

fn remove_from(file: &Path, section: &str) -> Result<()> {
    let text = read(file)?;
    match text.split_once(section) {
        Some((before, after)) => write(file, &[before.trim_end_matches('\n'), "\n", after].concat()),
        None => Ok(()),
    }
}

fn read(file: &Path) -> Result<String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        result => result.with_context(|| format!("cannot read {}", file.display())),
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::{add_to, remove_from};
    use std::fs;

    const SECTION: &str = "[target.x86_64-unknown-hermit]\nrunner = [\"/runner\"]\n";

    #[test]
    fn section_is_added_once_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        remove_from(&file, SECTION).unwrap();
        assert!(!file.exists());
        for before in ["", "[net]\noffline = true\n"] {
            fs::write(&file, before).unwrap();
            for _ in 0..2 {
                add_to(&file, SECTION).unwrap();
                let text = fs::read_to_string(&file).unwrap();
                assert!(text.starts_with(before) && text.matches(SECTION).count() == 1, "{text}");
            }
            remove_from(&file, SECTION).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap().trim_start(), before);
        }
    }

    #[test]
    fn other_lines_for_the_target_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        let own = "[target.x86_64-unknown-hermit]\nrunner = \"mine\"\n";
        fs::write(&file, own).unwrap();
        assert!(add_to(&file, SECTION).unwrap_err().to_string().contains("other lines"));
        remove_from(&file, SECTION).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), own);
    }
}
