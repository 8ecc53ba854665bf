//! The dependencies of a workspace's packages in a build for the guest: their names, and the folders of their
//! sources.
//!
//! Only crates that are linked into the guest are patched. Dependencies of build scripts are not: they run on
//! the host. Cargo's metadata list more dependencies than a build uses, for example those of weak features.
//! So a [`Graph`] has only the edges that are linked and that [`Features`] finds enabled. Callers that need
//! only names use [`names`], for which cargo downloads less.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::features::Features;
use crate::process;
use crate::target::GUEST_TARGET;

/// The table below `[package.metadata]` that marks patched copies. Its key `original` is the folder of the
/// unpatched sources.
pub(super) const MARK: &str = "hermit-patch";

/// A package in a dependency graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Cargo's identifier.
    id: String,
    /// Name of the crate.
    pub name: String,
    /// Version of the crate.
    pub version: String,
    /// Folder of the unpatched sources. For a patched copy, the folder may no longer exist.
    pub folder: PathBuf,
    /// True if the package is from crates.io, or a patched copy of such a package.
    is_registered: bool,
}

/// Purpose of a build, which determines the dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Programs,
    /// Also tests of the workspace's packages, with any of the workspace's features: later commands select
    /// the features. Cargo does not know the development dependencies of other packages.
    ProgramsAndTests,
}

/// The packages of a workspace and all their dependencies.
#[derive(Debug)]
pub(super) struct Graph {
    /// Folder of the workspace.
    pub(super) root: PathBuf,
    packages: Vec<Package>,
    /// Pairs of identifiers of packages. In builds for the guest, the first package depends on the second
    /// one.
    edges: Vec<(String, String)>,
}

impl Graph {
    /// Queries cargo, which may download missing packages, and writes the lock file if it is missing or out
    /// of date.
    pub(super) fn of(folder: &Path, features: &[String], purpose: Purpose) -> Result<Self> {
        let mut cargo = metadata();
        cargo.current_dir(folder).args(features.iter().flat_map(|features| ["--features", features]));
        if purpose == Purpose::ProgramsAndTests {
            cargo.arg("--all-features");
        }
        let metadata = process::output(&mut cargo).context("cannot query the dependencies")?;
        Self::parse(&metadata, purpose).context("cannot understand cargo's metadata")
    }

    pub(super) fn parse(metadata: &str, purpose: Purpose) -> Result<Self> {
        let metadata: Value = serde_json::from_str(metadata)?;
        let root = metadata["workspace_root"].as_str().context("no workspace root")?;
        let packages = metadata["packages"].as_array().context("no packages")?;
        let nodes = metadata["resolve"]["nodes"].as_array().context("no graph")?;
        let features = Features::new(&metadata, |edge| is_built(edge, purpose));
        let edges = nodes.iter().flat_map(|node| {
            let dependencies =
                node["deps"].as_array().into_iter().flatten().filter(|edge| is_linked(edge, purpose));
            let pairs = dependencies.filter_map(|edge| Some((text(&node["id"])?, text(&edge["pkg"])?)));
            pairs.filter(|(from, to)| features.is_enabled(from, to))
        });
        Ok(Self {
            root: PathBuf::from(root),
            packages: packages.iter().filter_map(Package::parse).collect(),
            edges: edges.collect(),
        })
    }

    /// Returns the packages from crates.io that are direct or indirect dependencies of the roots. The roots
    /// are the workspace's packages for which `is_root` returns true.
    pub(super) fn dependencies(&self, is_root: impl Fn(&Package) -> bool) -> Vec<&Package> {
        let roots = self.packages.iter().filter(|package| !package.is_registered && is_root(package));
        let mut pending: Vec<&str> = roots.map(|package| package.id.as_str()).collect();
        let mut found: HashSet<&str> = pending.iter().copied().collect();
        while let Some(id) = pending.pop() {
            let next = self.edges.iter().filter(|(from, _)| from == id).map(|(_, to)| to.as_str());
            pending.extend(next.filter(|to| found.insert(to)));
        }
        self.packages.iter().filter(|package| package.is_registered && found.contains(&*package.id)).collect()
    }

    /// Returns this package and the packages from crates.io that depend on it, directly or indirectly.
    pub(super) fn dependents(&self, package: &Package) -> Vec<&Package> {
        let mut pending = vec![package.id.as_str()];
        let mut found: HashSet<&str> = pending.iter().copied().collect();
        while let Some(id) = pending.pop() {
            let next = self.edges.iter().filter(|(_, to)| to == id).map(|(from, _)| from.as_str());
            pending.extend(next.filter(|from| found.insert(from)));
        }
        self.packages.iter().filter(|package| package.is_registered && found.contains(&*package.id)).collect()
    }

    /// Returns the packages from crates.io that have this name.
    pub(super) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Package> {
        self.packages.iter().filter(move |package| package.is_registered && package.name == name)
    }
}

impl Package {
    /// Returns true if the other package is the same version of the same crate.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        (&self.name, &self.version) == (&other.name, &other.version)
    }

    fn parse(package: &Value) -> Option<Self> {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let original = package["metadata"][MARK]["original"].as_str();
        let source = package["source"].as_str();
        Some(Self {
            id: text(&package["id"])?,
            name: text(&package["name"])?,
            version: text(&package["version"])?,
            folder: original.map_or(manifest.parent()?, Path::new).to_owned(),
            is_registered: original.is_some() || source.is_some_and(|from| from.contains("crates.io-index")),
        })
    }
}

/// Returns a command that prints cargo's metadata for the guest.
pub(super) fn metadata() -> Command {
    let mut cargo = process::cargo();
    cargo.args(["metadata", "--format-version", "1", "--filter-platform", GUEST_TARGET]);
    cargo
}

/// Returns the names of all packages in a build for the guest, including the dependencies of build scripts.
/// The build is that of the program in `folder`, or of `packages` of the workspace there. For this query
/// cargo downloads only packages that the build needs, whereas a [`Graph`] contains all packages of the
/// workspace.
pub(crate) fn names(folder: &Path, packages: &[&str], features: &[String]) -> Result<HashSet<String>> {
    let mut cargo = process::cargo();
    cargo.args(["tree", "--edges", "normal,build", "--prefix", "none", "--target", GUEST_TARGET]);
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    cargo.args(features.iter().flat_map(|features| ["--features", features]));
    let tree = process::output(cargo.current_dir(folder)).context("cannot query the dependencies")?;
    Ok(tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

/// Returns true if a dependency is linked into programs for this purpose. Dependencies of build scripts are
/// not.
fn is_linked(edge: &Value, purpose: Purpose) -> bool {
    let mut kinds = edge["dep_kinds"].as_array().into_iter().flatten();
    kinds
        .any(|kind| kind["kind"].is_null() || (purpose == Purpose::ProgramsAndTests && kind["kind"] == "dev"))
}

/// Returns true if a dependency is built for this purpose. Dependencies of build scripts count, because under
/// cargo's resolver 1 they share features with other dependencies.
fn is_built(edge: &Value, purpose: Purpose) -> bool {
    let mut kinds = edge["dep_kinds"].as_array().into_iter().flatten();
    is_linked(edge, purpose) || kinds.any(|kind| kind["kind"] == "build")
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{Graph, Purpose};
    use serde_json::{Value, json};

    /// Dependencies of a kind, by their names.
    type Dependencies<'a> = &'a [(&'a str, Value)];

    fn package(name: &str, source: &Value, dependencies: Dependencies<'_>) -> Value {
        let manifest = format!("/{name}/Cargo.toml");
        let declared =
            dependencies.iter().map(|(name, kind)| json!({ "name": name, "kind": kind, "target": null }));
        json!({
            "id": name, "name": name, "version": "1.0.0", "manifest_path": manifest, "source": source,
            "dependencies": declared.collect::<Vec<_>>(),
        })
    }

    fn node(name: &str, dependencies: Dependencies<'_>) -> Value {
        let kind = |kind| json!([{ "kind": kind, "target": null }]);
        let edges = dependencies.iter().map(|(name, of)| json!({ "pkg": name, "dep_kinds": kind(of) }));
        json!({ "id": name, "deps": edges.collect::<Vec<_>>() })
    }

    #[test]
    fn dependencies_are_those_of_the_roots_that_are_linked() {
        let registry = json!("registry+https://github.com/rust-lang/crates.io-index");
        let web = [("tokio", Value::Null), ("cc", json!("build")), ("tar", json!("dev"))];
        let (tool, tokio) = ([("rustix", Value::Null)], [("mio", Value::Null)]);
        let metadata = json!({
            "workspace_root": "/w",
            "workspace_members": ["web", "tool"],
            "packages": [
                package("web", &Value::Null, &web), package("tool", &Value::Null, &tool), package("tokio", &registry, &tokio),
                package("mio", &registry, &[]), package("cc", &registry, &[]), package("tar", &registry, &[]),
                package("rustix", &registry, &[]),
            ],
            "resolve": { "nodes": [node("web", &web), node("tool", &tool), node("tokio", &tokio)] },
        });
        let names = |root: &str, purpose| {
            let graph = Graph::parse(&metadata.to_string(), purpose).unwrap();
            let packages = graph.dependencies(|package| package.name == root);
            packages.into_iter().map(|package| package.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names("web", Purpose::Programs), ["tokio", "mio"]);
        assert_eq!(names("web", Purpose::ProgramsAndTests), ["tokio", "mio", "tar"]);
        assert_eq!(names("tool", Purpose::Programs), ["rustix"]);
        let graph = Graph::parse(&metadata.to_string(), Purpose::Programs).unwrap();
        let mio = graph.named("mio").next().unwrap();
        let names: Vec<_> = graph.dependents(mio).into_iter().map(|package| &package.name).collect();
        assert_eq!(names, ["tokio", "mio"]);
        assert!(Graph::parse("{}", Purpose::Programs).is_err());
    }
}
