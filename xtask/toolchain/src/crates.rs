//! Patches of crates from crates.io that do not know the target.
//!
//! `patches/crates/CRATE/` has the patches of a crate, in a directory for each range of versions. The patches
//! of a program's dependencies are applied to copies of the registry's sources. A generated configuration
//! passes the copies to cargo as `[patch.crates-io]`. `run`, `test` and `image` use this configuration by
//! themselves; `patch-config` writes it for other workspaces.
//!
//! In a lock file, a patched crate is a local package. But `Cargo.lock` must not change, and builds for the
//! host must use the registry's crates. So builds for the guest have a separate lock file, which is derived
//! from `Cargo.lock`.

mod catalog;
mod configuration;
mod features;
mod graph;
mod source;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{setup, workspace};
pub use catalog::Catalog;
use catalog::CratePatch;
use configuration::Configuration;
pub use graph::Package;
pub(crate) use graph::names;
use graph::{Graph, Purpose};
pub use source::{fetch, locked};

/// Configuration of a workspace for cargo, written to a file.
#[derive(Debug)]
pub struct WorkspaceConfiguration {
    /// Messages about dependencies that have no patch for their version.
    pub warnings: Vec<String>,
    /// The workspace's own configuration file.
    pub file: PathBuf,
    /// Lines to add to `file`. `None` if no dependency needs a patch.
    pub include: Option<String>,
}

/// Writes the configuration that makes cargo's own commands in a workspace use patched crates. `folder` is
/// that of the workspace or of one of its crates.
pub fn configure_workspace(folder: &Path) -> Result<WorkspaceConfiguration> {
    let graph = Graph::of(folder, &[], Purpose::ProgramsAndTests)?;
    let selection = Selection::new(&graph, &Catalog::read()?, |_| true)?;
    let configuration = Configuration::of_workspace(&graph.root, &selection.copies)?;
    Ok(WorkspaceConfiguration {
        warnings: [selection.notes, selection.warnings].concat(),
        file: graph.root.join(".cargo/config.toml"),
        include: (!selection.copies.is_empty()).then(|| configuration.include()),
    })
}

/// Makes a build for the guest use patched dependencies: those of the program in `folder`, or of these
/// packages of the workspace `folder`. `names` are the names of the dependencies, as the function [`names`]
/// returns them. Returns messages that may explain a failure of the build.
pub(crate) fn configure(
    cargo: &mut Command,
    folder: &Path,
    packages: &[&str],
    features: &[String],
    names: &HashSet<String>,
) -> Result<Vec<String>> {
    let catalog = Catalog::read()?;
    setup::configure_c(cargo, names)?;
    if !catalog.has_any_of(names) {
        return Ok(Vec::new());
    }
    let graph = Graph::of(folder, features, Purpose::Programs)?;
    let selection = Selection::new(&graph, &catalog, |package| match packages {
        [] => package.folder == folder,
        names => names.contains(&package.name.as_str()),
    })?;
    for warning in &selection.warnings {
        eprintln!("warning: {warning}");
    }
    if !selection.copies.is_empty() {
        Configuration::of_build(&graph.root, &selection.copies)?.apply(cargo);
    }
    Ok([selection.warnings, selection.notes].concat())
}

/// Returns the crates from crates.io in the workspace in `folder` that need patches for the guest. The keys
/// are crates that are patched or depend on a patched one; the values are the names of the patched crates.
pub fn patched(folder: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let graph = Graph::of(folder, &[], Purpose::Programs)?;
    let selection = Selection::new(&graph, &Catalog::read()?, |_| true)?;
    let mut patched = BTreeMap::<_, BTreeSet<_>>::new();
    for (copy, _) in &selection.copies {
        for dependent in graph.dependents(copy) {
            patched.entry(dependent.name.clone()).or_default().insert(copy.name.clone());
        }
    }
    Ok(patched)
}

/// A package, and the folder of its patched copy.
type Copy = (Package, PathBuf);

/// The patched dependencies of a program.
#[derive(Debug, Default)]
struct Selection {
    /// Packages with their copies, sorted by names and versions.
    copies: Vec<Copy>,
    /// Messages about packages that do not compile: they have patches, but not for their version.
    notes: Vec<String>,
    /// Messages about packages whose patch does not fit the sources, and about unpatched packages that
    /// compile but do not work. They are printed even if the build succeeds.
    warnings: Vec<String>,
}

impl Selection {
    /// Selects the dependencies that need patches, and makes the copies. Considers the dependencies of the
    /// packages for which `is_root` returns true.
    fn new(graph: &Graph, catalog: &Catalog, is_root: impl Fn(&Package) -> bool) -> Result<Self> {
        let mut selection = Self::default();
        for package in graph.dependencies(is_root) {
            match catalog.find(&package.name, &package.version) {
                Ok(Some(patch)) if patch.is_for_itself => {
                    selection.add(graph, catalog, patch, package)?;
                }
                Ok(_) => {}
                Err(known) => selection.note(catalog, package, known),
            }
        }
        selection
            .copies
            .sort_by(|(one, _), (other, _)| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
        Ok(selection)
    }

    /// Adds a package, and those packages that its patch requires and that the lock file has: the patched
    /// crate may depend on them. If the patch of one of these packages does not fit its sources, adds no
    /// package and returns false.
    fn add(
        &mut self,
        graph: &Graph,
        catalog: &Catalog,
        patch: &CratePatch,
        package: &Package,
    ) -> Result<bool> {
        if self.copies.iter().any(|(other, _)| other.is_same_as(package)) {
            return Ok(true);
        }
        let Some(copy) = self.copy(graph, patch, package)? else { return Ok(false) };
        let count = self.copies.len();
        self.copies.push((package.clone(), copy));
        for name in &patch.requires {
            let required = source::find(graph, name);
            let required = required.with_context(|| format!("{} requires {name}", package.name))?;
            let Some(required) = required else { continue };
            let fits = match catalog.find(&required.name, &required.version) {
                Ok(Some(patch)) => self.add(graph, catalog, patch, &required)?,
                Ok(None) => true,
                Err(known) => {
                    self.warnings
                        .push(format!("{} {} is used unpatched: {known}", package.name, package.version));
                    false
                }
            };
            if !fits {
                self.copies.truncate(count);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds a message about a package that has no patch for its version. `known` names the versions that have
    /// patches.
    fn note(&mut self, catalog: &Catalog, package: &Package, known: String) {
        if catalog.compiles_unpatched(&package.name) {
            self.warnings.push(format!("{known}; it compiles without one, but does not work as it should"));
        } else {
            self.notes.push(known);
        }
    }

    /// Returns the folder of a package's patched copy, and makes the copy first if there is none. Returns
    /// `None` if the patch does not fit.
    fn copy(&mut self, graph: &Graph, patch: &CratePatch, package: &Package) -> Result<Option<PathBuf>> {
        let folder = source::folder_of_copy(patch, package)?;
        if folder.is_dir() {
            return Ok(Some(folder));
        }
        let failed = || format!("cannot patch {} {}", package.name, package.version);
        let original = source::original(graph, package).with_context(failed)?;
        let changes = tempfile::tempdir().with_context(failed)?;
        if let Err(error) = patch.series.apply_to(&original, changes.path()) {
            let misfit = format!(
                "{0} {1} is not patched, `cargo update -p {0} --precise {2}` chooses a version that is: {error:#}",
                package.name, package.version, patch.from
            );
            if !self.warnings.contains(&misfit) {
                self.warnings.push(misfit);
            }
            return Ok(None);
        }
        source::copy(&original, changes.path(), &folder).with_context(failed)?;
        Ok(Some(folder))
    }
}

/// Returns the folder of patched copies, configurations and lock files.
fn folder() -> PathBuf {
    workspace::target_dir().join("setup/crates")
}

#[cfg(test)]
mod tests;
