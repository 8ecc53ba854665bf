//! The package in a folder, as cargo's metadata describe it: its programs, and which one runs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};
use serde_json::Value;

use crate::process;
use crate::usage::usage_error;

/// A binary of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Folder of the package.
    pub(crate) folder: PathBuf,
    /// Cargo's identifier of the package. The name would be ambiguous: a dependency may have the same name.
    pub(crate) package: String,
    pub(crate) name: String,
}

/// A package, with its programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    folder: PathBuf,
    /// Cargo's identifier.
    id: String,
    /// Names of the binaries.
    binaries: Vec<String>,
    /// Name of the binary that `cargo run` takes if there are several.
    default_run: Option<String>,
}

impl Package {
    /// Queries cargo about the package in a folder. Returns `None` if the folder only has a workspace, whose
    /// packages are in other folders.
    pub fn of(folder: &Path) -> Result<Option<Self>> {
        let folder = &folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
        let mut cargo = process::cargo();
        cargo.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]);
        let metadata = process::output(cargo.arg(folder.join("Cargo.toml")).current_dir(folder))
            .with_context(|| format!("cannot read {}", folder.join("Cargo.toml").display()))?;
        Self::parse(&metadata, folder).context("cannot understand cargo's metadata")
    }

    fn parse(metadata: &str, folder: &Path) -> Result<Option<Self>> {
        let metadata: Value = serde_json::from_str(metadata)?;
        let packages = metadata["packages"].as_array().context("no packages")?;
        let is_here = |package: &&Value| {
            let manifest = package["manifest_path"].as_str().map(Path::new).and_then(Path::parent);
            manifest.and_then(|manifest| manifest.canonicalize().ok()).is_some_and(|found| found == folder)
        };
        let Some(package) = packages.iter().find(is_here) else { return Ok(None) };
        let targets = package["targets"].as_array().context("no targets")?;
        let is_binary = |target: &&Value| {
            let mut kinds = target["kind"].as_array().into_iter().flatten();
            kinds.any(|kind| kind == "bin")
        };
        let binaries = targets.iter().filter(is_binary);
        Ok(Some(Self {
            folder: folder.to_owned(),
            id: package["id"].as_str().context("a package without an identifier")?.to_owned(),
            binaries: binaries.filter_map(|target| target["name"].as_str().map(str::to_owned)).collect(),
            default_run: package["default_run"].as_str().map(str::to_owned),
        }))
    }

    /// Returns the binary to run: the one named `chosen`, or else the one that `cargo run` would choose.
    ///
    /// # Errors
    ///
    /// Fails if there is no such binary, or if there are several binaries and no choice.
    pub fn binary(&self, chosen: Option<&str>) -> Result<Binary> {
        let name = self.binary_name(chosen)?.to_owned();
        Ok(Binary { folder: self.folder.clone(), package: self.id.clone(), name })
    }

    fn binary_name(&self, chosen: Option<&str>) -> Result<&str> {
        match (chosen.or(self.default_run.as_deref()), self.binaries.as_slice()) {
            (_, []) => Err(self.error("has no program to boot: it has no binary")),
            (Some(name), binaries) => {
                binaries.iter().find(|binary| *binary == name).map(String::as_str).ok_or_else(|| {
                    self.error(&format!("has no binary `{name}`, but {}", binaries.join(", ")))
                })
            }
            (None, [binary]) => Ok(binary),
            (None, binaries) => Err(self.error(&format!(
                "has several programs: choose one with `--bin NAME` out of {}",
                binaries.join(", ")
            ))),
        }
    }

    fn error(&self, text: &str) -> Error {
        usage_error(format!("{} {text}", self.folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::Package;
    use crate::process;
    use std::fs;
    use std::path::Path;

    /// Makes a crate with a manifest and empty programs, and queries cargo about it.
    fn package(manifest: &str, programs: &[&str]) -> anyhow::Result<Option<Package>> {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::create_dir_all(folder.join("src/bin")).unwrap();
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        for program in programs {
            fs::write(folder.join(program), "fn main() {}\n").unwrap();
        }
        Package::of(&folder)
    }

    fn binary(manifest: &str, programs: &[&str]) -> String {
        package(manifest, programs).unwrap().unwrap().binary(None).unwrap().name
    }

    #[test]
    fn package_is_found_in_any_form_of_its_manifest() {
        for manifest in [
            "[package]\nname = \"one\"\n",
            "[package] # comment\nname = \"one\"\n",
            "package.name = \"one\"\n",
            "package = { name = \"one\" }\n",
            " [ package ]\nname = 'one'\n[workspace]\n",
        ] {
            assert_eq!(binary(manifest, &["src/main.rs"]), "one", "{manifest}");
        }
        assert_eq!(package("[workspace]\n", &[]).unwrap(), None);
        assert!(package("[package]\n", &["src/main.rs"]).is_err());
    }

    #[test]
    fn binary_is_the_only_one_or_the_default_or_the_chosen_one() {
        let manifest = "[package]\nname = \"one\"\n";
        let default_run = format!("{manifest}default-run = \"two\"\n");
        let several = ["src/main.rs", "src/bin/two.rs"];
        assert_eq!(binary(&default_run, &several), "two");
        let package = package(manifest, &several).unwrap().unwrap();
        assert_eq!(package.binary(Some("two")).unwrap().name, "two");
        let message = |chosen| package.binary(chosen).unwrap_err().to_string();
        assert!(message(None).contains("`--bin NAME` out of one, two"), "{}", message(None));
        assert!(message(Some("three")).contains("no binary `three`"), "{}", message(Some("three")));
    }

    #[test]
    fn library_beside_the_binary_is_no_program() {
        let manifest = "[package]\nname = \"one\"\n[lib]\ncrate-type = [\"cdylib\"]\n";
        assert_eq!(binary(manifest, &["src/main.rs", "src/lib.rs"]), "one");
        let library = package(manifest, &["src/lib.rs"]).unwrap().unwrap();
        assert!(library.binary(None).unwrap_err().to_string().contains("no program"));
    }

    #[test]
    fn identifier_selects_the_package_in_commands_of_cargo() {
        let root = crate::workspace::root();
        let package = Package::of(&root.join("examples/kv")).unwrap().unwrap();
        let mut cargo = process::cargo();
        cargo.current_dir(root).args(["pkgid", "--package", &package.binary(None).unwrap().package]);
        assert!(process::output(&mut cargo).unwrap().contains("examples/kv"));
        assert_eq!(Package::parse("{\"packages\":[]}", Path::new("/x")).unwrap(), None);
    }
}
