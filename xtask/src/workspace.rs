//! Where things are: the workspace, its target directory and its examples.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folder of the workspace that this tool was built in.
pub fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// Where cargo puts what it builds from the workspace, and setup its own intermediate files.
pub fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => root().join(dir),
        _ => root().join("target"),
    }
}

/// The folder of an example, if there is one of that name.
pub fn example(name: &str) -> Option<PathBuf> {
    let folder = root().join("examples").join(name);
    let plain = !name.is_empty() && !name.contains(['/', '.']);
    (plain && folder.join("Cargo.toml").is_file()).then_some(folder)
}

/// The names of all examples, sorted.
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
