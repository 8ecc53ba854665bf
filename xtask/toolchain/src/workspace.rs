//! Paths of the workspace: its root, target directory and programs for guests.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Directory of the examples, which users copy as a start of their own programs.
const EXAMPLES: &str = "examples";

/// Directories with programs for guests: examples, tests, and benchmarks. Names are unique among all of them.
pub const PROGRAMS: [&str; 3] = [EXAMPLES, "kernel/tests", "xtask/bench"];

/// Returns the root of the workspace that this tool was built in.
pub fn root() -> &'static Path {
    // The workspace's configuration of cargo sets `HERMIT_XTASK`. If the variable changes, because the
    // repository was moved, cargo compiles this code again. `CARGO_MANIFEST_DIR` is for builds from another
    // working directory, where that configuration is not effective; cargo does not notice if this variable
    // changes.
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let xtask = option_env!("HERMIT_XTASK").map(Path::new).or(package.parent());
    xtask.and_then(Path::parent).unwrap_or(package)
}

/// Returns cargo's target directory of the workspace, in which set-up also keeps intermediate files.
pub fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => root().join(dir),
        _ => root().join("target"),
    }
}

/// Returns the directory of an example, or of a test's or benchmark's program, if it exists.
pub fn program(name: &str) -> Option<PathBuf> {
    let is_plain = !name.is_empty() && !name.contains(['/', '.']);
    let directories = PROGRAMS.iter().map(|directory| root().join(directory).join(name));
    directories.into_iter().find(|directory| is_plain && is_package(directory))
}

/// Returns true if the folder has a package, and not only a workspace of packages in other folders.
fn is_package(folder: &Path) -> bool {
    let manifest = fs::read_to_string(folder.join("Cargo.toml"));
    let manifest = manifest.ok().and_then(|text| text.parse::<toml::Table>().ok());
    manifest.is_some_and(|manifest| manifest.contains_key("package"))
}

/// Returns the names of all examples, sorted.
pub fn examples() -> Result<Vec<String>> {
    let folder = root().join(EXAMPLES);
    let entries = folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| is_package(&folder.join(name)))
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::{PROGRAMS, examples, program, root};
    use std::path::Path;

    #[test]
    fn programs_of_tests_are_found_and_no_examples() {
        assert!(program("hello_world").is_some() && program("threads").is_some());
        assert!(program("crates").is_none(), "a workspace without a package of its own");
        assert!(!examples().unwrap().contains(&"threads".to_owned()));
    }

    #[test]
    fn names_of_programs_are_unique() {
        let entries = PROGRAMS.iter().flat_map(|directory| root().join(directory).read_dir().unwrap());
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn root_is_of_a_variable_that_cargo_tracks() {
        assert_eq!(option_env!("HERMIT_XTASK").map(Path::new), Some(root().join("xtask").as_path()));
        assert_eq!(root().join("xtask/toolchain"), Path::new(env!("CARGO_MANIFEST_DIR")));
    }
}
