//! Tests of crates that do not work: a program that uses such a crate must still fail as the list says.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use hermit_toolchain::target::GUEST_TARGET;
use hermit_toolchain::{build, process, workspace};

use crate::compatibility::Unsupported;
use crate::test::platform::TestPlatform;
use crate::test::report::last_lines;

/// Number of lines of a build's messages that are shown.
const LAST_LINES: usize = 20;

/// Lock that admits one build at a time. The builds share a target folder, and cargo would make the others
/// wait for it while their time limits run.
static BUILD: Mutex<()> = Mutex::new(());

/// Builds a program that uses the crate, and runs it if it can be built.
pub(super) fn test(platform: &TestPlatform<'_>, krate: &Unsupported) -> Result<()> {
    let folder = package(krate)?;
    let messages = match build(&folder)? {
        Err(messages) => messages,
        Ok(program) => {
            let outcome = platform.guest_of(&program, &[]).cpus(2).memory(super::MEMORY).run()?;
            ensure!(outcome.code != Some(0), "it works: move it to a program");
            outcome.text()
        }
    };
    check(krate, &messages)
}

fn check(krate: &Unsupported, messages: &str) -> Result<()> {
    ensure!(
        messages.contains(&krate.error),
        "it does not fail with {:?}, but with\n{}",
        krate.error,
        last_lines(messages, LAST_LINES)
    );
    Ok(())
}

/// Writes a package with a program that uses the crate, and returns the package's folder.
fn package(krate: &Unsupported) -> Result<PathBuf> {
    let folder = workspace::target_dir().join("crates/unsupported").join(&krate.name);
    let failed = || format!("cannot write {}", folder.display());
    fs::create_dir_all(folder.join("src")).with_context(failed)?;
    let Unsupported { name, version, features, code, .. } = krate;
    let manifest = format!(
        "[package]\nname = \"unsupported\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         {name} = {{ version = \"{version}\", features = {features:?} }}\n\n[profile.dev]\ndebug = false\n\n[workspace]\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).with_context(failed)?;
    fs::write(folder.join("src/main.rs"), format!("fn main() {{\n{code}\n}}\n")).with_context(failed)?;
    Ok(folder)
}

/// Builds the package for the target, with the patches that fit. Returns the program, or cargo's output if
/// the build fails.
fn build(folder: &Path) -> Result<Result<PathBuf, String>> {
    let _turn = BUILD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut cargo = build::cargo_of_package(folder)?;
    cargo.env("CARGO_TARGET_DIR", workspace::target_dir().join("crates"));
    let output = cargo.output().with_context(|| format!("cannot start `{}`", process::display(&cargo)))?;
    if !output.status.success() {
        return Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let program = workspace::target_dir().join("crates").join(GUEST_TARGET).join("debug/unsupported");
    // The program is copied, because the next build overwrites it with a program of the same name.
    let copy = folder.join("program");
    fs::copy(&program, &copy).with_context(|| format!("cargo built no {}", program.display()))?;
    Ok(Ok(copy))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::compatibility::Unsupported;

    #[test]
    fn other_errors_than_the_listed_one_are_reported() {
        let krate = Unsupported {
            name: "a".into(),
            version: "1".into(),
            features: Vec::new(),
            code: String::new(),
            error: "undefined symbol".into(),
            why: String::new(),
            upstream: String::new(),
        };
        assert!(check(&krate, "error: undefined symbol: f").is_ok());
        assert!(check(&krate, "error: no such command").unwrap_err().to_string().contains("no such command"));
    }
}
