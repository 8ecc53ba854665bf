//! The workspace from which std's tests are built: a copy of the sources of the installed std, and manifests
//! of our own.
//!
//! The integration tests and the tests of `core` and `alloc` link to the installed std, as programs do. The
//! unit tests of std are inside of std itself: cargo compiles the copy of std as a test program, which links
//! to the other installed libraries, such as `core` and `alloc`.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hermit_toolchain::patches::STD_TESTS;
use hermit_toolchain::setup::{self, StdSources};
use hermit_toolchain::workspace;

use crate::test::images;

/// Manifests, as pairs of a path in the workspace and the contents. Those of `coretests` and `alloctests` are
/// upstream's without the benchmarks.
const MANIFESTS: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("manifests/workspace.toml")),
    ("packages/coretests/Cargo.toml", include_str!("manifests/coretests.toml")),
    ("packages/alloctests/Cargo.toml", include_str!("manifests/alloctests.toml")),
    ("packages/std/Cargo.toml", include_str!("manifests/std.toml")),
];

/// Manifest of std's integration tests: its path and the first part of its contents. `make` appends a section
/// for each test file.
const INTEGRATION: (&str, &str) =
    ("packages/std-integration/Cargo.toml", include_str!("manifests/std-integration.toml"));

/// Integration tests that are left out, because they test nothing on the target: one needs child processes,
/// one checks the compiler's macros, and the others are for other systems.
const NOT_BUILT: [&str; 6] = [
    "pipe_subprocess",
    "ambiguous_hash_map",
    "switch_stdout",
    "win_delete_self",
    "windows",
    "windows_unix_socket",
];

/// Name of the file that marks a complete workspace. It is written last, and contains the key by which
/// [`prepare`] recognises the sources.
const COMPLETE: &str = "complete";

/// Name of the file that identifies the kernel to which the existing programs are linked.
const KERNEL: &str = "kernel";

/// Returns the folder of the workspace. Makes the workspace again if std, the patches or the manifests have
/// changed. If the kernel has changed, removes the programs, so that cargo links them again: cargo itself
/// does not notice a new kernel.
pub(super) fn prepare() -> Result<PathBuf> {
    let sources = setup::std_sources()?;
    let folder = workspace::target_dir().join("std-tests");
    let key = format!(
        "{}\n{MANIFESTS:?} {INTEGRATION:?} {NOT_BUILT:?} {}",
        sources.installation,
        STD_TESTS.digest()?
    );
    if !contains(&folder.join(COMPLETE), &key) {
        println!("copying the sources of std to {}", folder.display());
        make(&folder, &sources)?;
        write(&folder.join(COMPLETE), &key)?;
    }
    if !contains(&folder.join(KERNEL), &sources.kernel) {
        images::remove_programs(&super::build::output(&folder))?;
        write(&folder.join(KERNEL), &sources.kernel)?;
    }
    Ok(folder)
}

fn contains(file: &Path, text: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|found| found == text)
}

fn make(folder: &Path, sources: &StdSources) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let library = folder.join("library");
    setup::copy_dir(&sources.library, &library)?;
    STD_TESTS.apply(&library)?;
    // With upstream's lock file, the tests use the same versions of other crates as upstream.
    fs::rename(library.join("Cargo.lock"), folder.join("Cargo.lock")).context("std has no Cargo.lock")?;
    for (name, text) in MANIFESTS {
        write(&folder.join(name), text)?;
    }
    let (name, start) = INTEGRATION;
    write(&folder.join(name), &(start.to_owned() + &integration_targets(&library.join("std/tests"))?))?;
    write(&folder.join(name).with_file_name("lib.rs"), "")
}

fn write(file: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}", file.display());
    fs::create_dir_all(file.parent().with_context(failed)?).with_context(failed)?;
    fs::write(file, text).with_context(failed)
}

/// Returns the sections `[[test]]` of a manifest for the integration tests in a folder. A test is a file, or
/// a folder that contains a file `lib.rs`.
fn integration_targets(folder: &Path) -> Result<String> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("there is no {}", folder.display()))? {
        let path = entry?.path();
        let file = if path.is_dir() { path.join("lib.rs") } else { path.clone() };
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default().replace('-', "_");
        if file.is_file() && !NOT_BUILT.contains(&name.as_str()) {
            targets.push(format!("\n[[test]]\nname = \"{name}\"\npath = \"{}\"\n", file.display()));
        }
    }
    targets.sort();
    Ok(targets.concat())
}

#[cfg(test)]
mod tests {
    use super::integration_targets;
    use std::fs;

    #[test]
    fn files_and_folders_with_a_library_are_targets() {
        let folder = tempfile::tempdir().unwrap();
        for inner in ["common", "sync"] {
            fs::create_dir(folder.path().join(inner)).unwrap();
        }
        for file in ["a-b.rs", "common/mod.rs", "pipe_subprocess.rs", "sync/lib.rs", "sync/mutex.rs"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        let path = folder.path().display();
        assert_eq!(
            integration_targets(folder.path()).unwrap(),
            format!(
                "\n[[test]]\nname = \"a_b\"\npath = \"{path}/a-b.rs\"\n\
                 \n[[test]]\nname = \"sync\"\npath = \"{path}/sync/lib.rs\"\n"
            )
        );
    }
}
