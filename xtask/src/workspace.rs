//! Paths of the workspace: its root, target directory and examples.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Returns the root of the workspace that this tool was built in.
pub fn root() -> &'static Path {
    // Cargo compiles this again when the first variable changes, as after a move of the repository, but not for the second one,
    // which is for builds with another working directory: the first one is set by the workspace's configuration.
    let package = Path::new(option_env!("HERMIT_XTASK").unwrap_or(env!("CARGO_MANIFEST_DIR")));
    package.parent().unwrap_or(package)
}

/// Returns cargo's target directory of the workspace, where set-up also keeps intermediate files.
pub fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => root().join(dir),
        _ => root().join("target"),
    }
}

/// Returns the folder of an example, if it exists.
pub fn example(name: &str) -> Option<PathBuf> {
    let folder = root().join("examples").join(name);
    let plain = !name.is_empty() && !name.contains(['/', '.']);
    (plain && is_package(&folder)).then_some(folder)
}

/// Whether there is a package in the folder, and not only a workspace of packages in others.
fn is_package(folder: &Path) -> bool {
    let manifest = fs::read_to_string(folder.join("Cargo.toml"));
    let manifest = manifest.ok().and_then(|text| text.parse::<toml::Table>().ok());
    manifest.is_some_and(|manifest| manifest.contains_key("package"))
}

/// Returns the names of all examples, sorted.
pub fn examples() -> Result<Vec<String>> {
    let folder = root().join("examples");
    let entries = folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| example(name).is_some())
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::{example, examples, root};
    use std::path::Path;

    #[test]
    fn workspace_of_crates_is_no_example() {
        assert!(example("hello_world").is_some() && example("crates").is_none());
        assert!(!examples().unwrap().contains(&"crates".to_owned()));
    }

    #[test]
    fn root_is_of_a_variable_that_cargo_tracks() {
        assert_eq!(option_env!("HERMIT_XTASK"), Some(env!("CARGO_MANIFEST_DIR")));
        assert_eq!(root().join("xtask"), Path::new(env!("CARGO_MANIFEST_DIR")));
    }
}
