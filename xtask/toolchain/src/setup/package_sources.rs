//! Sources of packages of this workspace, with those of the packages on which they depend.
//!
//! Set-up builds its tools again if one of their sources changes. The list of sources follows from the
//! manifests, so a new dependency is in it without a change of set-up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, iter};

use anyhow::{Context, Result};
use toml::Table;

use super::files;

/// Sections with dependencies that are parts of a package's programs or build them.
const SECTIONS: [&str; 2] = ["dependencies", "build-dependencies"];

/// Returns the sources of `packages` and of their dependencies in the workspace. Packages are directories
/// relative to `root`, and so are the files.
pub(super) fn list(root: &Path, packages: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let mut sources = BTreeSet::new();
    for package in with_dependencies(root, packages)? {
        sources.extend(sources_of(root, &package)?);
    }
    Ok(sources)
}

/// Returns the directories of `packages` and of all packages of the workspace on which they depend.
fn with_dependencies(root: &Path, packages: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let directories = directories(&manifest(root)?);
    let mut found = BTreeSet::new();
    let mut pending: Vec<PathBuf> = packages.iter().map(PathBuf::from).collect();
    while let Some(package) = pending.pop() {
        if found.insert(package.clone()) {
            let manifest = manifest(&root.join(package))?;
            pending.extend(dependencies(&manifest).filter_map(|name| directories.get(name).cloned()));
        }
    }
    Ok(found)
}

/// Returns the files of a package except tests, documents, and packages in its directory.
fn sources_of(root: &Path, package: &Path) -> Result<Vec<PathBuf>> {
    let directory = root.join(package);
    let failed = || format!("cannot read {}", directory.display());
    let mut sources = Vec::new();
    for entry in fs::read_dir(&directory).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        let is_document = path.extension().is_some_and(|extension| extension == "md");
        if path.is_file() && !is_document {
            sources.extend(path.file_name().map(|name| package.join(name)));
        }
    }
    let code = package.join("src");
    sources.extend(files::list(&root.join(&code))?.iter().map(|file| code.join(file)));
    Ok(sources)
}

fn manifest(directory: &Path) -> Result<Table> {
    let file = directory.join("Cargo.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    text.parse().with_context(|| format!("{} is invalid", file.display()))
}

/// Returns the directories of the workspace's packages, by name. Members depend on each other only by these
/// entries of the workspace's manifest.
fn directories(workspace: &Table) -> BTreeMap<String, PathBuf> {
    let dependencies = workspace.get("workspace").and_then(|section| section.get("dependencies")?.as_table());
    let entries = dependencies.into_iter().flatten();
    entries.filter_map(|(name, entry)| Some((name.clone(), entry.get("path")?.as_str()?.into()))).collect()
}

/// Returns the names of a package's dependencies on any target, without those of its tests.
fn dependencies(manifest: &Table) -> impl Iterator<Item = &str> {
    let targets = manifest.get("target").and_then(|targets| targets.as_table());
    let of_targets = targets.into_iter().flat_map(Table::values).filter_map(|target| target.as_table());
    let tables = iter::once(manifest).chain(of_targets);
    let sections =
        tables.flat_map(|table| SECTIONS.iter().filter_map(|section| table.get(*section)?.as_table()));
    sections.flat_map(Table::keys).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::{list, with_dependencies};
    use crate::{process, workspace};
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Returns the directories of all packages of this workspace, each with those of its dependencies, as
    /// cargo resolves the manifests.
    fn packages_of_cargo() -> Vec<(PathBuf, Vec<PathBuf>)> {
        let mut cargo = process::cargo();
        cargo.current_dir(workspace::root()).args(["metadata", "--no-deps", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&process::output(&mut cargo).unwrap()).unwrap();
        let relative = |path: &Path| path.strip_prefix(workspace::root()).unwrap().to_owned();
        let path = |value: &Value| value.as_str().map(PathBuf::from);
        let package = |package: &Value| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let dependencies = dependencies.filter(|dependency| dependency["kind"] != "dev");
            let manifest = path(&package["manifest_path"]).unwrap();
            let paths = dependencies.filter_map(|dependency| Some(relative(&path(&dependency["path"])?)));
            (relative(manifest.parent().unwrap()), paths.collect())
        };
        metadata["packages"].as_array().unwrap().iter().map(package).collect()
    }

    #[test]
    fn dependencies_of_every_package_are_those_that_cargo_finds() {
        let packages = packages_of_cargo();
        for (package, _) in &packages {
            let found = with_dependencies(workspace::root(), &[package.to_str().unwrap()]).unwrap();
            let of_found = packages.iter().filter(|(package, _)| found.contains(package));
            let direct = of_found.flat_map(|(_, dependencies)| dependencies.clone());
            let expected: BTreeSet<PathBuf> = direct.chain([package.clone()]).collect();
            assert_eq!(found, expected, "{}", package.display());
        }
    }

    #[test]
    fn sources_are_code_and_manifest_of_the_package_and_of_its_dependencies() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "Cargo.toml",
            "[workspace.dependencies]\none = { path = \"a/one\" }\ntwo = { path = \"two\" }\n",
        );
        write("a/Cargo.toml", "[target.'cfg(unix)'.dependencies]\none.workspace = true\nanyhow = \"1\"\n");
        write("a/one/Cargo.toml", "[dev-dependencies]\ntwo.workspace = true\n");
        write("two/Cargo.toml", "");
        for file in ["a/build.rs", "a/src/lib.rs", "a/one/src/deep/b.rs", "a/tests/c.rs", "a/README.md"] {
            write(file, "");
        }
        let sources =
            ["a/Cargo.toml", "a/build.rs", "a/one/Cargo.toml", "a/one/src/deep/b.rs", "a/src/lib.rs"];
        assert_eq!(list(root.path(), &["a"]).unwrap(), sources.map(PathBuf::from).into());
    }
}
