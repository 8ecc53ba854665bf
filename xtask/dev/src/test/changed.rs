//! `cargo xtask test --changed`: selects the lints, host tests and test rings that a change can affect.
//!
//! A changed file belongs to the package in whose folder it is. The change affects that package and all
//! packages of the workspace that depend on it. It also affects a test ring if the ring's guests, hypervisor
//! or tools contain an affected package.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use hermit_toolchain::process;
use hermit_toolchain::workspace::{self, PROGRAMS};
use serde_json::Value;

use super::Ring;
use crate::compatibility;

/// Files and folders at the root that affect no tests except the lints of text.
const DOCUMENTS: [&str; 4] = ["docs/", "LICENSE-", ".gitignore", ".gitattributes"];

/// Packages, each with the test rings whose guests or tools contain it.
const RINGS: [(&str, &[Ring]); 7] = [
    ("hermit-kernel", &[Ring::Process, Ring::Qemu]),
    ("hermit-net", &[Ring::Process, Ring::Qemu]),
    ("hermit-sys", &[Ring::Process, Ring::Qemu]),
    ("hermit-loader", &[Ring::Qemu]),
    ("uhyve", &[Ring::Process, Ring::Kvm]),
    ("xtask", &[Ring::Process]),
    ("xtask-dev", &[Ring::Process]),
];

/// A package of the workspace.
#[derive(Debug)]
struct WorkspacePackage {
    name: String,
    /// Folder from the root of the workspace, with a slash at its end.
    folder: String,
    /// Folders, in the same form, of the packages of the workspace on which this package depends.
    dependencies: Vec<String>,
}

/// Lints, packages and rings that a change can affect.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Affected {
    /// True if all lints run, not only those of text.
    pub(super) lints: bool,
    /// True if everything is tested.
    pub(super) everything: bool,
    /// Packages whose host tests run.
    pub(super) packages: BTreeSet<String>,
    /// Test rings that run, each with the package that is the reason.
    pub(super) rings: BTreeMap<Ring, String>,
}

impl fmt::Display for Affected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "lints: {}", if self.lints { "all" } else { "text only" })?;
        if self.everything {
            return writeln!(out, "tests: everything, because files outside of all packages have changed");
        }
        let packages: Vec<_> = self.packages.iter().map(String::as_str).collect();
        writeln!(
            out,
            "affected packages: {}",
            if packages.is_empty() { "none".to_owned() } else { packages.join(", ") }
        )?;
        self.rings.iter().try_for_each(|(ring, package)| writeln!(out, "ring {ring}: it contains {package}"))
    }
}

/// Returns the lints, packages and test rings that the changes since a commit can affect.
pub(super) fn select(base: &str) -> Result<Affected> {
    let files = changed_files(base)?;
    println!("{} files differ from {base}", files.len());
    let selection = affected(&files, &packages()?);
    print!("{selection}");
    Ok(selection)
}

/// Returns the files that differ from a commit, and the files that git does not track yet.
fn changed_files(base: &str) -> Result<BTreeSet<String>> {
    let git =
        |words: &[&str]| process::output(Command::new("git").args(words).current_dir(workspace::root()));
    let changed = git(&["diff", "--name-only", base, "--"])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(changed.lines().chain(new.lines()).map(str::to_owned).collect())
}

/// Returns the packages of the workspace, as cargo describes them.
fn packages() -> Result<Vec<WorkspacePackage>> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&process::output(&mut cargo)?)?;
    let packages = metadata["packages"].as_array().context("cargo's metadata have no packages")?;
    Ok(packages.iter().filter_map(|package| parse(package, workspace::root())).collect())
}

fn parse(package: &Value, root: &Path) -> Option<WorkspacePackage> {
    let folder = |path: &Path| Some(format!("{}/", path.strip_prefix(root).ok()?.display()));
    let paths =
        package["dependencies"].as_array()?.iter().filter_map(|dependency| dependency["path"].as_str());
    Some(WorkspacePackage {
        name: package["name"].as_str()?.to_owned(),
        folder: folder(Path::new(package["manifest_path"].as_str()?).parent()?)?,
        dependencies: paths.filter_map(|path| folder(Path::new(path))).collect(),
    })
}

fn affected(files: &BTreeSet<String>, packages: &[WorkspacePackage]) -> Affected {
    let mut selection = Affected::default();
    let mut folders = BTreeSet::new();
    for file in files.iter().filter(|file| !is_document(file)) {
        selection.lints = true;
        if file.starts_with(compatibility::FOLDER) {
            selection.rings.insert(Ring::Crates, compatibility::FOLDER.to_owned());
            continue;
        }
        let owners = packages.iter().filter(|package| file.starts_with(&package.folder));
        match owners.max_by_key(|package| package.folder.len()) {
            Some(owner) => drop(folders.insert(owner.folder.as_str())),
            None => selection.everything = true,
        }
    }
    // Adds dependents until there are no more.
    loop {
        let depends = |package: &&WorkspacePackage| {
            package.dependencies.iter().any(|folder| folders.contains(folder.as_str()))
        };
        let dependents: Vec<_> =
            packages.iter().filter(depends).map(|package| package.folder.as_str()).collect();
        let count = folders.len();
        folders.extend(dependents);
        if folders.len() == count {
            break;
        }
    }
    for package in packages.iter().filter(|package| folders.contains(package.folder.as_str())) {
        selection.packages.insert(package.name.clone());
        for ring in rings(package) {
            selection.rings.entry(*ring).or_insert_with(|| package.name.clone());
        }
    }
    selection
}

/// Returns true if no compiler reads a file.
fn is_document(file: &str) -> bool {
    file.ends_with(".md") || DOCUMENTS.iter().any(|document| file.starts_with(document))
}

fn rings(package: &WorkspacePackage) -> &'static [Ring] {
    let rings = RINGS.iter().find(|(name, _)| *name == package.name).map(|(_, rings)| *rings);
    let default: &[Ring] = if PROGRAMS.iter().any(|programs| Path::new(&package.folder).starts_with(programs))
    {
        &[Ring::Process]
    } else {
        &[]
    };
    rings.unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::{Affected, WorkspacePackage, affected, packages};
    use crate::test::Ring;

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> WorkspacePackage {
        let dependencies = dependencies.iter().map(|&folder| folder.to_owned()).collect();
        WorkspacePackage { name: name.to_owned(), folder: folder.to_owned(), dependencies }
    }

    fn select(files: &[&str]) -> Affected {
        let packages = [
            package("hermit-sched", "kernel/sched/", &[]),
            package("hermit-kernel", "kernel/", &["kernel/sched/"]),
            package("uhyve", "hypervisor/", &[]),
            package("httpd", "examples/httpd/", &[]),
        ];
        affected(&files.iter().map(|&file| file.to_owned()).collect(), &packages)
    }

    fn rings(selection: &Affected) -> Vec<Ring> {
        selection.rings.keys().copied().collect()
    }

    #[test]
    fn metadata_of_the_workspace_are_parsed() {
        let packages = packages().unwrap();
        let kernel = packages.iter().find(|package| package.name == "hermit-kernel").unwrap();
        assert_eq!(kernel.folder, "kernel/");
        assert!(kernel.dependencies.iter().any(|folder| folder == "kernel/sched/"));
        let files = ["kernel/sched/src/lib.rs".to_owned()].into();
        assert!(affected(&files, &packages).rings.contains_key(&Ring::Qemu));
    }

    #[test]
    fn documents_affect_lints_of_text_only() {
        assert_eq!(select(&["docs/a.svg", "README.md", "kernel/README.md"]), Affected::default());
    }

    #[test]
    fn package_affects_itself_and_its_dependents() {
        let selection = select(&["kernel/sched/src/lib.rs"]);
        assert!(selection.lints && !selection.everything);
        assert!(selection.packages.iter().eq(["hermit-kernel", "hermit-sched"]));
        assert_eq!(rings(&selection), [Ring::Process, Ring::Qemu]);
        let selection = select(&["kernel/src/lib.rs"]);
        assert!(selection.packages.iter().eq(["hermit-kernel"]));
    }

    #[test]
    fn hypervisor_and_examples_affect_the_rings_that_contain_them() {
        assert_eq!(rings(&select(&["hypervisor/src/main.rs"])), [Ring::Process, Ring::Kvm]);
        assert_eq!(rings(&select(&["examples/httpd/src/main.rs"])), [Ring::Process]);
    }

    #[test]
    fn programs_that_use_crates_affect_their_ring() {
        let selection = select(&["kernel/tests/crates/text/src/search.rs"]);
        assert!(selection.lints && !selection.everything && selection.packages.is_empty());
        assert_eq!(rings(&selection), [Ring::Crates]);
    }

    #[test]
    fn files_outside_of_packages_affect_everything() {
        assert!(select(&["Cargo.lock"]).everything);
    }
}
