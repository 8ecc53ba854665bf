//! Patches: lists of edits, as TOML.
//!
//! A file `CRATE/*.toml` is a patch for a range of versions: `from` is the first version, and `below` the
//! first later version that it does not fit. An edit replaces the text `find` by the text `replace`, in one
//! file or in all Rust files of a folder. In contrast to a diff, an edit has no line numbers and no context,
//! so a patch fits several versions of a crate. Each edit states how many times its text must occur; if the
//! number differs, the patch does not fit. A patch can also create files, and require patches of other
//! crates. The [`Catalog`] has all patches and finds the patch for a version.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use crate::digest::hex;

/// A replacement of a text in a file of a crate, or in all Rust sources below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edit {
    place: Place,
    find: String,
    replace: String,
    /// Number of times that the text must occur, in all files together.
    count: usize,
}

/// Where an edit looks for its text: a path below the folder of the crate.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    Folder(PathBuf),
}

/// A file that a patch adds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Creation {
    file: PathBuf,
    text: String,
}

/// The texts of files, by their paths in a crate.
pub(super) type Files = BTreeMap<PathBuf, String>;

/// The three numbers of a version. A pre-release counts as its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version([u64; 3]);

impl Version {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let numbers = text.split(['+', '-']).next().unwrap_or_default();
        let mut parts = numbers.split('.').map(str::parse);
        let mut number =
            || parts.next().unwrap_or(Ok(0)).with_context(|| format!("invalid version `{text}`"));
        let version = Self([number()?, number()?, number()?]);
        ensure!(parts.next().is_none(), "invalid version `{text}`");
        Ok(version)
    }
}

impl Display for Version {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(formatter, "{major}.{minor}.{patch}")
    }
}

/// The edits that make a crate support the target, for a range of the crate's versions.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    /// The file that the patch was read from.
    origin: PathBuf,
    /// First version that the patch fits.
    pub(super) from: Version,
    /// First later version that the patch does not fit.
    pub(super) below: Version,
    /// Other crates that have to be patched with this one.
    pub(super) requires: Vec<String>,
    /// True if the crate itself needs the patch. Otherwise the patch is applied only if a patch of another
    /// crate requires it.
    pub(super) is_for_itself: bool,
    /// True if the crate compiles without its patch, but does not work.
    compiles_unpatched: bool,
    /// Digest of the file.
    pub(super) digest: String,
    edits: Vec<Edit>,
    creations: Vec<Creation>,
}

impl Patch {
    /// Parses a patch. `text` is the contents of the file `origin`.
    pub(super) fn parse(origin: &Path, text: &str) -> Result<Self> {
        let table: Table = text.parse()?;
        let known = ["from", "below", "requires", "only-if-required", "compiles-unpatched", "edit", "create"];
        if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
            bail!("unknown key `{key}`");
        }
        let is_true = |key| table.get(key).and_then(Value::as_bool) == Some(true);
        let requires = table.get("requires").and_then(Value::as_array).into_iter().flatten();
        Ok(Self {
            origin: origin.to_owned(),
            from: Version::parse(string(&table, "from")?)?,
            below: Version::parse(string(&table, "below")?)?,
            requires: requires.filter_map(Value::as_str).map(str::to_owned).collect(),
            is_for_itself: !is_true("only-if-required"),
            compiles_unpatched: is_true("compiles-unpatched"),
            digest: hex(&Sha256::digest(text))[..12].to_owned(),
            edits: tables(&table, "edit").map(Edit::parse).collect::<Result<_>>()?,
            creations: tables(&table, "create").map(Creation::parse).collect::<Result<_>>()?,
        })
    }

    fn fits(&self, version: Version) -> bool {
        (self.from..self.below).contains(&version)
    }

    /// Applies the patch to the sources in `folder`, and returns the changed and new files. Each edit sees
    /// the results of the earlier edits.
    ///
    /// # Errors
    ///
    /// Fails if a text does not occur as often as the edit states: the sources are of a version that the
    /// patch does not fit.
    pub(super) fn apply(&self, folder: &Path) -> Result<Files> {
        let mut files = Files::new();
        for creation in &self.creations {
            let file = &creation.file;
            ensure!(!folder.join(file).exists(), "{}: {} exists", self.origin.display(), file.display());
            files.insert(file.clone(), creation.text.clone());
        }
        for edit in &self.edits {
            let misfit = || format!("{} does not fit {}", self.origin.display(), edit.place.path().display());
            edit.apply(folder, &mut files).with_context(misfit)?;
        }
        Ok(files)
    }
}

impl Edit {
    fn parse(table: &Table) -> Result<Self> {
        let count = table.get("count").map_or(Some(1), Value::as_integer);
        let place = match table.get("folder") {
            None => Place::File(relative(table, "file")?),
            Some(_) if table.contains_key("file") => bail!("an edit has `file` and `folder`"),
            Some(_) => Place::Folder(relative(table, "folder")?),
        };
        Ok(Self {
            place,
            find: string(table, "find")?.to_owned(),
            replace: string(table, "replace")?.to_owned(),
            count: count.and_then(|count| usize::try_from(count).ok()).context("`count` is no number")?,
        })
    }

    /// Edits files of the crate in `folder`, and puts the new texts into `files`. If an earlier edit has put
    /// a file there already, changes that text instead of the file on disk. Lines end with `\n` afterwards.
    fn apply(&self, folder: &Path, files: &mut Files) -> Result<()> {
        let mut found = Vec::new();
        for path in self.place.files(folder)? {
            let text = match files.get(&path) {
                Some(text) => text.clone(),
                None => fs::read_to_string(folder.join(&path))?.replace("\r\n", "\n"),
            };
            found.push((path, text.matches(&self.find).count(), text));
        }
        let count: usize = found.iter().map(|(_, count, _)| count).sum();
        ensure!(count == self.count, "found {count} times, not {}:\n{}", self.count, self.find);
        let matching = found.into_iter().filter(|(_, count, _)| *count > 0);
        files.extend(matching.map(|(path, _, text)| (path, text.replace(&self.find, &self.replace))));
        Ok(())
    }
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Folder(path) => path,
        }
    }

    /// Returns the paths of the files, relative to the crate's folder `root`.
    fn files(&self, root: &Path) -> Result<Vec<PathBuf>> {
        match self {
            Self::File(file) => Ok(vec![file.clone()]),
            Self::Folder(folder) => {
                let files = crate::setup::list_files(&root.join(folder))?.into_iter();
                let sources =
                    files.filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
                Ok(sources.map(|file| folder.join(file)).collect())
            }
        }
    }
}

impl Creation {
    fn parse(table: &Table) -> Result<Self> {
        Ok(Self { file: relative(table, "file")?, text: string(table, "text")?.to_owned() })
    }
}

fn tables<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> {
    table.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn string<'a>(table: &'a Table, key: &str) -> Result<&'a str> {
    table.get(key).and_then(Value::as_str).with_context(|| format!("there is no `{key}`"))
}

/// Returns the path that is the value of `key`, relative to the folder of the crate. Rejects paths outside of
/// that folder.
fn relative(table: &Table, key: &str) -> Result<PathBuf> {
    let path = PathBuf::from(string(table, key)?);
    ensure!(
        path.components().all(|part| matches!(part, std::path::Component::Normal(_))),
        "`{key}` leaves the crate"
    );
    Ok(path)
}

/// All patches.
#[derive(Debug, Default)]
pub(super) struct Catalog(Vec<(String, Patch)>);

impl Catalog {
    /// Reads all patches `CRATE/*.toml` in a folder.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let mut patches = Vec::new();
        for file in crate::setup::list_files(folder)? {
            let origin = folder.join(&file);
            let name = file.parent().and_then(Path::to_str).unwrap_or_default().to_owned();
            let text = fs::read_to_string(&origin);
            let patch = text.map_err(Into::into).and_then(|text| Patch::parse(&origin, &text));
            patches.push((name, patch.with_context(|| format!("cannot read {}", origin.display()))?));
        }
        Ok(Self(patches))
    }

    #[cfg(test)]
    pub(super) fn new(patches: Vec<(String, Patch)>) -> Self {
        Self(patches)
    }

    /// Returns all patches of a crate.
    pub(super) fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Patch> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, patch)| patch)
    }

    /// Returns true if at least one of these crates has a version that needs a patch.
    pub(super) fn has_any_of(&self, names: &HashSet<String>) -> bool {
        self.0.iter().any(|(name, patch)| patch.is_for_itself && names.contains(name))
    }

    /// Returns true if a crate that needs a patch also compiles without it. Then a missing patch does not
    /// make the build fail.
    pub(super) fn compiles_unpatched(&self, name: &str) -> bool {
        self.of(name).any(|patch| patch.compiles_unpatched)
    }

    /// Returns the patch of a crate for a version, or `None` if the crate has no patches at all.
    ///
    /// # Errors
    ///
    /// Fails if no patch of the crate fits the version. The error lists the versions that have patches.
    pub(super) fn find<'a>(&'a self, name: &'a str, version: &str) -> Result<Option<&'a Patch>, String> {
        if self.of(name).next().is_none() {
            return Ok(None);
        }
        let parsed = Version::parse(version).map_err(|error| error.to_string())?;
        if let Some(patch) = self.of(name).find(|patch| patch.fits(parsed)) {
            return Ok(Some(patch));
        }
        let known: Vec<_> =
            self.of(name).map(|patch| format!("{} to below {}", patch.from, patch.below)).collect();
        Err(format!("{name} {version} has no patch; known: {}", known.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::{Catalog, Patch, Version};
    use std::fs;
    use std::path::Path;

    const PATCH: &str = r#"
        from = "0.6.1"
        below = "0.7"
        requires = ["libc"]
        [[edit]]
        file = "src/lib.rs"
        find = "unix"
        replace = "any(unix, hermit)"
        count = 2
        [[edit]]
        file = "src/lib.rs"
        find = "(unix, hermit)) first"
        replace = "(hermit, unix)) first"
        [[create]]
        file = "src/hermit.rs"
        text = "new"
    "#;

    fn patch() -> Patch {
        Patch::parse(Path::new("socket2/0.6.toml"), PATCH).unwrap()
    }

    #[test]
    fn edits_apply_one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("src")).unwrap();
        fs::write(dir.path().join("src/lib.rs"), "cfg(unix) first, cfg(unix) second").unwrap();
        let files = patch().apply(dir.path()).unwrap();
        let expected = "cfg(any(hermit, unix)) first, cfg(any(unix, hermit)) second";
        assert_eq!(files[Path::new("src/lib.rs")], expected);
        assert_eq!(files[Path::new("src/hermit.rs")], "new");
    }

    #[test]
    fn edit_spans_lines_that_end_with_carriage_return() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("lib.rs"), "#[cfg(unix)]\r\nmod unix;\r\n").unwrap();
        let text = "from = \"1\"\nbelow = \"2\"\n[[edit]]\nfile = \"lib.rs\"\nfind = \"(unix)]\\nmod\"\nreplace = \"(any)]\\nmod\"";
        let files = Patch::parse(Path::new("p"), text).unwrap().apply(dir.path()).unwrap();
        assert_eq!(files[Path::new("lib.rs")], "#[cfg(any)]\nmod unix;\n");
    }

    #[test]
    fn edit_that_does_not_match_names_patch_and_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("src")).unwrap();
        fs::write(dir.path().join("src/lib.rs"), "cfg(unix)").unwrap();
        let error = format!("{:#}", patch().apply(dir.path()).unwrap_err());
        assert!(error.contains("socket2/0.6.toml does not fit src/lib.rs: found 1 times, not 2"), "{error}");
    }

    #[test]
    fn edit_of_a_folder_applies_to_all_sources_below() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("src/sys")).unwrap();
        fs::write(dir.path().join("src/lib.rs"), "cfg(unix), cfg(unix)").unwrap();
        fs::write(dir.path().join("src/sys/unix.rs"), "cfg(unix)").unwrap();
        fs::write(dir.path().join("src/sys/none.rs"), "").unwrap();
        fs::write(dir.path().join("src/sys/unix.txt"), "cfg(unix)").unwrap();
        let parse = |count: usize| {
            let rule = "from = \"1\"\nbelow = \"2\"\n[[edit]]\nfolder = \"src\"\nfind = \"(unix)\"\n";
            let later = "[[edit]]\nfile = \"src/sys/unix.rs\"\nfind = \"(hermit)\"\nreplace = \"(other)\"\n";
            let text = format!("{rule}replace = \"(hermit)\"\ncount = {count}\n{later}");
            Patch::parse(Path::new("p"), &text).unwrap()
        };
        let files = parse(3).apply(dir.path()).unwrap();
        let texts: Vec<_> = files.iter().map(|(path, text)| (path.to_str().unwrap(), &**text)).collect();
        assert_eq!(texts, [("src/lib.rs", "cfg(hermit), cfg(hermit)"), ("src/sys/unix.rs", "cfg(other)")]);
        let error = format!("{:#}", parse(2).apply(dir.path()).unwrap_err());
        assert!(error.contains("does not fit src: found 3 times, not 2"), "{error}");
    }

    #[test]
    fn invalid_patches_are_rejected() {
        for (old, new) in [
            ("from = \"0.6.1\"", ""),
            ("below = \"0.7\"", "below = \"seven\""),
            ("count = 2", "count = -1"),
            ("find = \"unix\"", ""),
            ("src/hermit.rs", "../hermit.rs"),
            ("find = \"unix\"", "find = \"unix\"\nfolder = \"src\""),
            ("requires", "require"),
        ] {
            let text = PATCH.replace(old, new);
            assert_ne!(text, PATCH);
            assert!(Patch::parse(Path::new("p"), &text).is_err(), "{new}");
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        let version = |text| Version::parse(text).unwrap();
        assert!(version("0.6.10") > version("0.6.9") && version("1.2.1+spec-1.1.0") == version("1.2.1"));
        assert!(Version::parse("1.2.3.4").is_err() && Version::parse("1.x").is_err());
    }

    #[test]
    fn find_names_known_versions() {
        let catalog = Catalog(vec![("socket2".to_owned(), patch())]);
        for version in ["0.6.1", "0.6.99"] {
            assert!(catalog.find("socket2", version).unwrap().is_some(), "{version}");
        }
        assert!(catalog.find("serde", "1.0.0").unwrap().is_none());
        let message = catalog.find("socket2", "0.5.9").unwrap_err();
        assert_eq!(message, "socket2 0.5.9 has no patch; known: 0.6.1 to below 0.7.0");
    }

    #[test]
    fn patches_of_this_repository_are_valid() {
        let folder = crate::workspace::root().join("hermit-sys/patches");
        let catalog = Catalog::read(&folder).unwrap();
        for (name, patch) in &catalog.0 {
            assert!(patch.from < patch.below, "{name}");
            for required in &patch.requires {
                assert!(catalog.of(required).next().is_some(), "{name} requires {required}");
            }
        }
        assert!(catalog.of("socket2").next().is_some());
    }
}
