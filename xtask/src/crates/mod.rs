//! Patches of crates from crates.io that do not know the target.
//!
//! `hermit-sys/patches/CRATE/` has, for each crate, lists of edits with the versions that they fit. Those of a program's
//! dependencies are applied to copies of the registry's sources, which a generated configuration passes to cargo as
//! `[patch.crates-io]`. `run`, `test` and `image` use it by themselves; `patch-config` is for other workspaces.
//!
//! A patched crate is a local package in a lock file. So that `Cargo.lock` stays as it is, and builds for the host use the
//! registry's crates, builds for the guest have a lock file of their own, which is derived from it.

mod configuration;
mod graph;
mod patch;
mod source;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::usage::usage_error;
use crate::{process, workspace};
use configuration::Configuration;
use graph::{Graph, Package};
use patch::{Catalog, Patch};

/// Options of `patch-config`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints what to add to .cargo/config.toml of the workspace. Cargo then records patched crates in Cargo.lock as \
                  local packages. Run it again after dependencies have changed."
)]
pub struct Arguments {
    /// Folder of the crate or workspace
    #[arg(value_name = "PATH", default_value = ".")]
    folder: PathBuf,
}

/// Writes the configuration of a workspace for cargo, and prints how to use it.
pub fn main(arguments: &Arguments) -> Result<()> {
    if !arguments.folder.join("Cargo.toml").is_file() {
        return Err(usage_error(format!("there is no Cargo.toml in {}", arguments.folder.display())));
    }
    let graph = Graph::of(&arguments.folder, &[])?;
    let selection = Selection::new(&graph, |_| true)?;
    for note in &selection.notes {
        eprintln!("warning: {note}");
    }
    if selection.patches.is_empty() {
        eprintln!("No dependency needs a patch.");
        return Ok(());
    }
    let configuration = Configuration::of_workspace(&graph.root, &selection.copies()?)?;
    eprintln!("Add this to {}:\n", graph.root.join(".cargo/config.toml").display());
    println!(
        "# Crates that are patched for x86_64-unknown-hermit; `cargo xtask patch-config` renews the file."
    );
    println!("include = [{:?}]", configuration.file);
    Ok(())
}

/// Patches the dependencies of the packages in `folder` that `is_root` selects, in a build for the guest. Returns what may be
/// the reason if the build fails.
pub(crate) fn configure(
    cargo: &mut Command,
    folder: &Path,
    features: &[String],
    is_root: impl Fn(&Package) -> bool,
) -> Result<Vec<String>> {
    let graph = Graph::of(folder, features)?;
    let selection = Selection::new(&graph, is_root)?;
    if !selection.patches.is_empty() {
        Configuration::of_build(&graph.root, &selection.copies()?)?.apply(cargo);
    }
    Ok(selection.notes)
}

/// The patches of a program's dependencies.
#[derive(Debug)]
struct Selection {
    /// Each patch, and the sources that it fits.
    patches: Vec<(Patch, Package)>,
    /// What has patches, but none for its version.
    notes: Vec<String>,
}

impl Selection {
    fn new(graph: &Graph, is_root: impl Fn(&Package) -> bool) -> Result<Self> {
        let catalog = Catalog::read(&workspace::root().join("hermit-sys/patches"))?;
        let mut selection = Self { patches: Vec::new(), notes: Vec::new() };
        for package in graph.dependencies(is_root) {
            match catalog.find(&package.name, &package.version) {
                Ok(Some(patch)) if patch.is_for_itself => selection.add(graph, &catalog, patch, package)?,
                Ok(_) => {}
                Err(known) => selection.notes.push(known),
            }
        }
        Ok(selection)
    }

    /// Adds a patch, and those that it requires: of crates on which the patched one may depend, if the lock file has them.
    fn add(&mut self, graph: &Graph, catalog: &Catalog, patch: &Patch, package: &Package) -> Result<()> {
        if self.patches.iter().any(|(_, other)| other.is_same_as(package)) {
            return Ok(());
        }
        self.patches.push((patch.clone(), package.clone()));
        for name in &patch.requires {
            let required = source::find(graph, name);
            let required = required.with_context(|| format!("{} requires {name}", package.name))?;
            let Some(required) = required else { continue };
            match catalog.find(&required.name, &required.version) {
                Ok(Some(patch)) => self.add(graph, catalog, patch, &required)?,
                Ok(None) => {}
                Err(known) => self.notes.push(known),
            }
        }
        Ok(())
    }

    /// Makes the patched copies; returns their names, versions and folders, sorted.
    fn copies(&self) -> Result<Vec<(&Package, PathBuf)>> {
        let mut copies = Vec::new();
        for (patch, package) in &self.patches {
            copies.push((package, source::copy(patch, package)?));
        }
        copies.sort_by(|(one, _), (other, _)| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
        Ok(copies)
    }
}

/// The folder of patched copies, configurations and lock files.
fn folder() -> PathBuf {
    workspace::target_dir().join("setup/crates")
}

/// A command that prints cargo's metadata for the guest.
fn metadata() -> Command {
    let mut cargo = process::cargo();
    cargo.args([
        "metadata",
        "--quiet",
        "--format-version",
        "1",
        "--filter-platform",
        crate::target::GUEST_TARGET,
    ]);
    cargo
}
