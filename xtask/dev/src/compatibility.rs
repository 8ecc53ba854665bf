//! The list of crates that are tested in guests, `kernel/tests/crates/crates.toml`, and its tables in
//! documents.
//!
//! The list has groups of crates that work. Each group is a package `crates_NAME`, a program that uses every
//! crate of the group. A group divides its crates into those that work unpatched and those that need patches.
//! The list also has crates that do not work, each with the expected error and the reason. The test ring
//! `crates` tests the crates that work, and with `--long` also those that do not. `cargo xtask figures`
//! generates the tables in docs/compatibility.md. Versions are not in the list: they come from the lock file
//! of the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use hermit_toolchain::workspace;
use toml::{Table, Value};

/// Path from the repository's root to the workspace of the programs that use the crates.
pub(crate) const FOLDER: &str = "kernel/tests/crates/";

/// Crates in a program.
#[derive(Debug)]
pub(crate) struct Group {
    /// NAME in the name of the package, `crates_NAME`.
    pub(crate) name: String,
    /// Purpose of the crates.
    title: String,
    /// Crates that work, each with the patched crates with which it is built.
    pub(crate) crates: BTreeMap<String, BTreeSet<String>>,
}

/// A crate that does not work.
#[derive(Clone, Debug)]
pub(crate) struct Unsupported {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) features: Vec<String>,
    /// Statements that use the crate.
    pub(crate) code: String,
    /// Text of the error: a part of the output of the build, or of the program that fails.
    pub(crate) error: String,
    /// Reason why the crate does not work, in Markdown.
    pub(crate) why: String,
    /// Link to upstream's discussion, in Markdown. Empty if there is none.
    pub(crate) upstream: String,
}

/// All crates of the list.
#[derive(Debug)]
pub(crate) struct Crates {
    pub(crate) groups: Vec<Group>,
    pub(crate) unsupported: Vec<Unsupported>,
    /// Versions of the crates that work, by group and name.
    versions: BTreeMap<(String, String), String>,
}

impl Group {
    /// Returns the name of the package.
    pub(crate) fn package(&self) -> String {
        format!("crates_{}", self.name)
    }

    fn parse(table: &Table) -> Result<Self> {
        let as_is = strings(table, "as-is")?.into_iter().map(|name| (name, BTreeSet::new()));
        let patched = table.get("patched").and_then(Value::as_table).into_iter().flatten();
        let patched = patched.map(|(name, by)| (name.clone(), list(by).into_iter().collect()));
        let crates = as_is.chain(patched).collect();
        Ok(Self { name: string(table, "name")?, title: string(table, "title")?, crates })
    }
}

impl Unsupported {
    fn parse(table: &Table) -> Result<Self> {
        Ok(Self {
            name: string(table, "name")?,
            version: string(table, "version")?,
            features: strings(table, "features").unwrap_or_default(),
            code: string(table, "code")?,
            error: string(table, "error")?,
            why: string(table, "why")?,
            upstream: string(table, "upstream").unwrap_or_default(),
        })
    }
}

impl Crates {
    pub(crate) fn read() -> Result<Self> {
        let read = |name: &str| {
            let file = workspace::root().join(FOLDER).join(name);
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
        };
        Self::parse(&read("crates.toml")?, &read("Cargo.lock")?).context("invalid list of crates")
    }

    fn parse(list: &str, lock: &str) -> Result<Self> {
        let (list, lock): (Table, Table) = (list.parse()?, lock.parse()?);
        let groups: Vec<_> = tables(&list, "group").map(Group::parse).collect::<Result<_>>()?;
        let unsupported = tables(&list, "unsupported").map(Unsupported::parse).collect::<Result<_>>()?;
        let mut versions = BTreeMap::new();
        for group in &groups {
            for name in group.crates.keys() {
                let version = version(&lock, &group.package(), name)?;
                ensure!(
                    versions.insert((group.name.clone(), name.clone()), version).is_none(),
                    "{name} is listed twice"
                );
            }
        }
        Ok(Self { groups, unsupported, versions })
    }

    /// Returns the tables, and the totals above them.
    pub(crate) fn markdown(&self) -> String {
        let all: usize = self.groups.iter().map(|group| group.crates.len()).sum();
        let patched: Vec<_> = self.groups.iter().flat_map(|group| self.patched(group)).collect();
        let as_is = self.groups.iter().filter_map(|group| {
            let names = group.crates.iter().filter(|(_, by)| by.is_empty());
            let names: Vec<_> = names.map(|(name, _)| self.versioned(group, name)).collect();
            (!names.is_empty()).then(|| [group.title.clone(), names.join(", ")].to_vec())
        });
        let unsupported = self.unsupported.iter().map(|krate| {
            let Unsupported { name, version, why, upstream, .. } = krate;
            [format!("{name} {version}"), why.clone(), upstream.clone()].to_vec()
        });
        let totals = format!(
            "Of {} crates {all} work: {} as they are, {} with patches, their own or those of crates that they are built with.\n",
            all + self.unsupported.len(),
            all - patched.len(),
            patched.len()
        );
        totals
            + &table(&["field", "crates that work as they are"], as_is)
            + &table(&["crate that works with patches", "patched"], patched.into_iter())
            + &table(&["crate that does not work", "why", "upstream"], unsupported)
    }

    /// Returns the table rows of those crates of a group that need patches.
    fn patched<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = Vec<String>> + 'a {
        group.crates.iter().filter(|(_, by)| !by.is_empty()).map(|(name, by)| {
            let by: Vec<_> = by.iter().map(String::as_str).collect();
            [self.versioned(group, name), by.join(", ")].to_vec()
        })
    }

    fn versioned(&self, group: &Group, name: &str) -> String {
        let version = self.versions.get(&(group.name.clone(), name.to_owned()));
        format!("{name} {}", version.map_or("", String::as_str))
    }
}

/// Returns a table below an empty line. Returns an empty text if there are no rows.
fn table(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: Vec<String> = rows.map(|cells| format!("| {} |\n", cells.join(" | "))).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("\n| {} |\n|{}\n{}", titles.join(" | "), " --- |".repeat(titles.len()), rows.concat())
}

/// Returns the version of a package's dependency. If the lock file has several versions of a crate, the
/// version follows the name of the dependency in the package's entry. Otherwise only the entry of the crate
/// itself has the version.
fn version(lock: &Table, package: &str, name: &str) -> Result<String> {
    let named = |wanted: &str| {
        let packages = tables(lock, "package");
        packages
            .filter(|package| package.get("name").and_then(Value::as_str) == Some(wanted))
            .collect::<Vec<_>>()
    };
    let packages = named(package);
    let user = packages.first().with_context(|| format!("there is no package {package}"))?;
    let dependencies = strings(user, "dependencies")?;
    let mut words = dependencies.iter().map(|dependency| dependency.split(' '));
    let dependency = words.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()));
    match dependency.with_context(|| format!("{package} does not depend on {name}"))? {
        Some(version) => Ok(version.to_owned()),
        None => {
            string(named(name).first().with_context(|| format!("there is no package {name}"))?, "version")
        }
    }
}

fn tables<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> {
    table.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn string(table: &Table, key: &str) -> Result<String> {
    let text = table.get(key).and_then(Value::as_str);
    text.map(str::to_owned).with_context(|| format!("no `{key}` in {table:?}"))
}

fn strings(table: &Table, key: &str) -> Result<Vec<String>> {
    Ok(list(table.get(key).with_context(|| format!("no `{key}` in {table:?}"))?))
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::Crates;

    const LIST: &str = r#"
        [[group]]
        name = "net"
        title = "networks"
        as-is = ["http", "url"]
        patched = { tokio = ["mio", "tokio"] }
        [[group]]
        name = "web"
        title = "servers"
        as-is = []
        patched = { warp = ["tokio"] }
        [[unsupported]]
        name = "ring"
        version = "0.17"
        code = ""
        error = "undefined symbol"
        why = "no assembly"
    "#;

    const LOCK: &str = r#"
        [[package]]
        name = "crates_net"
        version = "0.1.0"
        dependencies = ["http 1.5.0", "url", "tokio"]
        [[package]]
        name = "crates_web"
        version = "0.1.0"
        dependencies = ["warp"]
        [[package]]
        name = "warp"
        version = "0.4.0"
        [[package]]
        name = "http"
        version = "0.2.0"
        [[package]]
        name = "http"
        version = "1.5.0"
        [[package]]
        name = "url"
        version = "2.0.0"
        [[package]]
        name = "tokio"
        version = "1.9.0"
    "#;

    #[test]
    fn tables_have_versions_patches_and_reasons() {
        let text = Crates::parse(LIST, LOCK).unwrap().markdown();
        assert!(text.contains("Of 5 crates 4 work: 2 as they are, 2 with patches"), "{text}");
        assert!(text.contains("| networks | http 1.5.0, url 2.0.0 |"), "{text}");
        assert!(text.contains("| tokio 1.9.0 | mio, tokio |\n| warp 0.4.0 | tokio |"), "{text}");
        assert!(!text.contains("servers"), "a field without crates that work as they are: {text}");
        assert!(text.contains("| ring 0.17 | no assembly |  |"), "{text}");
    }

    #[test]
    fn crate_that_no_program_depends_on_is_an_error() {
        let lock = LOCK.replace("\"url\", ", "");
        let error = Crates::parse(LIST, &lock).unwrap_err();
        assert!(error.to_string().contains("does not depend on url"), "{error}");
    }

    #[test]
    fn list_of_the_repository_is_valid() {
        let crates = Crates::read().unwrap();
        assert!(crates.groups.iter().all(|group| !group.crates.is_empty()));
    }
}
