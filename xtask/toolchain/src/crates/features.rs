//! Dependencies that features enable, by cargo's rules.
//!
//! Cargo's metadata list too many dependencies. They treat a weak feature, `NAME?/FEATURE`, as if it enabled
//! the optional dependency `NAME`. In a build, a weak feature only enables `FEATURE` of that dependency, and
//! only if something else enables the dependency itself.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// The packages of cargo's metadata, each with its enabled features and dependencies. The features of a
/// package are the union of the features that all its dependents enable, as in cargo.
pub(super) struct Features<'a> {
    packages: HashMap<&'a str, Enabled<'a>>,
}

struct Enabled<'a> {
    package: &'a Value,
    dependencies: Vec<Dependency<'a>>,
    /// A member of the workspace, or an enabled dependency of a package that is built.
    is_built: bool,
    features: HashSet<&'a str>,
    /// Optional dependencies, by their names in the manifest.
    optional: HashSet<&'a str>,
}

/// An edge of cargo's graph.
struct Dependency<'a> {
    id: &'a str,
    /// The dependencies in the manifest that the edge stands for.
    declared: Vec<&'a Value>,
}

impl<'a> Features<'a> {
    /// Begins with the enabled features of the workspace's members, and enables all features and dependencies
    /// that follow from them. Considers only dependencies for which `is_used` returns true.
    pub(super) fn new(metadata: &'a Value, is_used: impl Fn(&Value) -> bool) -> Self {
        let packages: HashMap<_, _> = by_id(&metadata["packages"]).collect();
        let nodes: HashMap<_, _> = by_id(&metadata["resolve"]["nodes"]).collect();
        let members: HashSet<_> = strings(&metadata["workspace_members"]).collect();
        let enabled = packages.iter().map(|(&id, &package)| {
            let node = nodes.get(id).copied().unwrap_or(&Value::Null);
            let edges = array(&node["deps"]).filter(|edge| is_used(edge));
            let dependencies = edges.filter_map(|edge| Dependency::new(package, edge, &packages)).collect();
            let is_built = members.contains(id);
            let features = strings(&node["features"]).filter(|_| is_built).collect();
            (id, Enabled { package, dependencies, is_built, features, optional: HashSet::new() })
        });
        let mut features = Self { packages: enabled.collect() };
        while features.spread() {}
        features
    }

    /// Returns true if a package is built with a dependency.
    pub(super) fn is_enabled(&self, package: &str, dependency: &str) -> bool {
        self.packages.get(package).is_some_and(|package| {
            let mut edges = package.dependencies.iter().filter(|edge| edge.id == dependency);
            package.is_built && edges.any(|edge| package.declared(edge).next().is_some())
        })
    }

    /// Enables the features and dependencies that follow directly from the enabled ones. Returns true if it
    /// has enabled any.
    fn spread(&mut self) -> bool {
        let mut is_more = false;
        let mut dependencies = Vec::new();
        for package in self.packages.values_mut().filter(|package| package.is_built) {
            is_more |= package.follow();
            dependencies.extend(package.enabled_dependencies());
        }
        for (id, features) in dependencies {
            let Some(dependency) = self.packages.get_mut(id) else { continue };
            is_more |= !std::mem::replace(&mut dependency.is_built, true);
            for feature in features {
                is_more |= dependency.features.insert(feature);
            }
        }
        is_more
    }
}

impl<'a> Enabled<'a> {
    /// Enables the package's own features and optional dependencies that enabled features name. Returns true
    /// if it has enabled any.
    fn follow(&mut self) -> bool {
        let before = self.features.len() + self.optional.len();
        for value in self.values() {
            let dependency = value.split_once('/').map(|(name, _)| name).or(value.strip_prefix("dep:"));
            self.optional.extend(dependency.filter(|name| !name.ends_with('?')));
            // An optional dependency that no feature names with `dep:` is also a feature of the same name.
            let feature = value.split_once('/').map_or(value, |(name, _)| name);
            if self.package["features"].get(feature).is_some() {
                self.features.insert(feature);
            }
        }
        self.features.len() + self.optional.len() > before
    }

    /// Returns the values of the enabled features in the manifest's section `[features]`.
    fn values(&self) -> Vec<&'a str> {
        self.features.iter().flat_map(|name| strings(&self.package["features"][name])).collect()
    }

    /// Returns the identifiers of the enabled dependencies, each with the features that this package enables.
    fn enabled_dependencies(&self) -> Vec<(&'a str, Vec<&'a str>)> {
        let values = self.values();
        let dependencies = self.dependencies.iter().filter_map(|edge| {
            let mut declared = self.declared(edge).peekable();
            declared.peek()?;
            Some((edge.id, declared.flat_map(|dependency| features_of(dependency, &values)).collect()))
        });
        dependencies.collect()
    }

    /// Returns the enabled dependencies among those in the manifest that an edge stands for.
    fn declared<'e>(&'e self, edge: &'e Dependency<'a>) -> impl Iterator<Item = &'a Value> + 'e {
        let is_enabled = |dependency: &Value| {
            dependency["optional"] != true
                || name_of(dependency).is_some_and(|name| self.optional.contains(name))
        };
        edge.declared.iter().copied().filter(move |dependency| is_enabled(dependency))
    }
}

impl<'a> Dependency<'a> {
    fn new(package: &'a Value, edge: &'a Value, packages: &HashMap<&str, &Value>) -> Option<Self> {
        let id = edge["pkg"].as_str()?;
        let name = &packages.get(id)?["name"];
        let is_of_kind = |dependency: &Value| {
            let same = |kind: &Value| ["kind", "target"].iter().all(|key| kind[key] == dependency[key]);
            array(&edge["dep_kinds"]).any(same)
        };
        let is_renamed = |dependency: &Value| {
            let name = dependency["rename"].as_str().map(|name| name.replace('-', "_"));
            name.is_some() && name.as_deref() == edge["name"].as_str()
        };
        let declared: Vec<_> = array(&package["dependencies"])
            .filter(|dependency| dependency["name"] == *name && is_of_kind(dependency))
            .collect();
        let renamed: Vec<_> = declared.iter().copied().filter(|dependency| is_renamed(dependency)).collect();
        Some(Self { id, declared: if renamed.is_empty() { declared } else { renamed } })
    }
}

/// Returns the features of a dependency that its entry in the manifest and these values of enabled features
/// enable.
fn features_of<'a>(dependency: &'a Value, values: &[&'a str]) -> Vec<&'a str> {
    let default = (dependency["uses_default_features"] != false).then_some("default");
    let by_feature = values.iter().filter_map(|value| {
        let (name, feature) = value.split_once('/')?;
        (name_of(dependency) == Some(name.trim_end_matches('?'))).then_some(feature)
    });
    strings(&dependency["features"]).chain(default).chain(by_feature).collect()
}

/// Returns the name of a dependency in the manifest.
fn name_of(dependency: &Value) -> Option<&str> {
    dependency["rename"].as_str().or(dependency["name"].as_str())
}

fn by_id(values: &Value) -> impl Iterator<Item = (&str, &Value)> {
    array(values).filter_map(|value| Some((value["id"].as_str()?, value)))
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    array(value).filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::Features;
    use serde_json::{Value, json};

    fn optional(name: &str, features: &[&str]) -> Value {
        json!({ "name": name, "optional": true, "features": features, "kind": null, "target": null })
    }

    fn edge(to: &str) -> Value {
        json!({ "name": to, "pkg": to, "dep_kinds": [{ "kind": null, "target": null }] })
    }

    /// Returns the dependencies with which `crypto` is built if a program uses it with these features.
    fn enabled(features: &[&str]) -> Vec<&'static str> {
        let metadata = json!({
            "workspace_members": ["program"],
            "packages": [
                {
                    "id": "program", "name": "program", "features": {},
                    "dependencies": [{
                        "name": "crypto", "optional": false, "features": features, "uses_default_features": false,
                        "kind": null, "target": null
                    }],
                },
                {
                    "id": "crypto", "name": "crypto",
                    "features": {
                        "ring": ["dep:ring"], "std": ["ring?/std", "tls?/std"], "all": ["tls/std", "ring"],
                        "tls": ["dep:tls"],
                    },
                    "dependencies": [optional("ring", &[]), optional("tls", &[])],
                },
                { "id": "ring", "name": "ring", "features": { "std": [] }, "dependencies": [] },
                {
                    "id": "tls", "name": "tls", "features": { "std": ["dep:sys"], "sys": ["dep:sys"] },
                    "dependencies": [optional("sys", &[])],
                },
                { "id": "sys", "name": "sys", "features": {}, "dependencies": [] },
            ],
            "resolve": { "nodes": [
                { "id": "program", "deps": [edge("crypto")], "features": [] },
                // As in cargo's metadata, weak features are treated as strong ones.
                { "id": "crypto", "deps": [edge("ring"), edge("tls")], "features": ["std"] },
                { "id": "tls", "deps": [edge("sys")], "features": ["std"] },
            ] },
        });
        let features = Features::new(&metadata, |_| true);
        let edges = [("crypto", "ring"), ("crypto", "tls"), ("tls", "sys")];
        edges.iter().filter(|(from, to)| features.is_enabled(from, to)).map(|(_, to)| *to).collect()
    }

    #[test]
    fn weak_feature_enables_no_dependency() {
        assert_eq!(enabled(&["std"]), [""; 0]);
        assert_eq!(enabled(&["ring", "std"]), ["ring"]);
    }

    #[test]
    fn weak_feature_applies_to_a_dependency_that_another_feature_enables() {
        assert_eq!(enabled(&["tls"]), ["tls"]);
        assert_eq!(enabled(&["std", "tls"]), ["tls", "sys"]);
        assert_eq!(enabled(&["all"]), ["ring", "tls", "sys"]);
    }
}
