//! The catalog of patched crates, with the versions that have patches.
//!
//! `patches/crates/CRATE/VERSIONS` is the [`Series`] for a range of versions of a crate. The header of its
//! first patch has the range: `Since` is the first version, and `Below` ends the range. It also names the
//! crates that must be patched, too.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, ensure};

use crate::patches::{DIRECTORY, Header, NEW, Series};
use crate::workspace;

/// The three numbers of a version. A pre-release counts as its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u64; 3]);

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

/// The series of patches for a range of a crate's versions.
#[derive(Clone, Debug)]
pub struct CratePatch {
    /// The patches.
    pub series: Series,
    /// First version that the patch fits.
    pub from: Version,
    /// First later version that the patch does not fit.
    pub below: Version,
    /// Other crates that have to be patched with this one.
    pub(super) requires: Vec<String>,
    /// True if the crate itself needs the patch. Otherwise the patch is applied only if a patch of another
    /// crate requires it.
    pub(super) is_for_itself: bool,
    /// True if the crate compiles without its patch, but does not work.
    compiles_unpatched: bool,
}

impl CratePatch {
    fn read(series: Series) -> Result<Self> {
        let patches = series.patches()?;
        Self::new(series, &patches[0].header()?)
    }

    /// Returns the patches of `series`, whose first one has this header.
    pub(super) fn new(series: Series, header: &Header<'_>) -> Result<Self> {
        let since = header.required("Since")?;
        let requires = header.get("Requires").into_iter().flat_map(|names| names.split(", "));
        Ok(Self {
            series,
            from: Version::parse(since.rsplit(' ').next().unwrap_or_default())?,
            below: Version::parse(header.required("Below")?)?,
            requires: requires.map(str::to_owned).collect(),
            is_for_itself: !header.is_yes("Only if required"),
            compiles_unpatched: header.is_yes("Compiles unpatched"),
        })
    }

    fn fits(&self, version: Version) -> bool {
        (self.from..self.below).contains(&version)
    }
}

/// All patches of crates.
#[derive(Debug, Default)]
pub struct Catalog(Vec<(String, CratePatch)>);

impl Catalog {
    /// Reads the headers of all patches of crates.
    pub fn read() -> Result<Self> {
        let directory = workspace::root().join(DIRECTORY).join("crates");
        let mut patches = Vec::new();
        for name in names(&directory)? {
            for versions in names(&directory.join(&name))?.into_iter().filter(|name| name != NEW) {
                let series = Series::of_crate(&format!("crates/{name}"), &versions);
                let patch =
                    CratePatch::read(series).with_context(|| format!("a patch of {name} is invalid"))?;
                patches.push((name.clone(), patch));
            }
        }
        Ok(Self(patches))
    }

    /// Returns the patches with the names of their crates.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &CratePatch)> {
        self.0.iter().map(|(name, patch)| (name.as_str(), patch))
    }

    #[cfg(test)]
    pub(super) fn new(patches: Vec<(String, CratePatch)>) -> Self {
        Self(patches)
    }

    /// Returns all patches of a crate.
    pub(super) fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a CratePatch> {
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
    pub fn find<'a>(&'a self, name: &'a str, version: &str) -> Result<Option<&'a CratePatch>, String> {
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

    /// Returns the patch of a crate that is to be adapted to a version: the one for it, or for the next lower
    /// versions, or else the last one.
    pub fn nearest<'a>(&'a self, name: &'a str, version: &str) -> Result<&'a CratePatch> {
        let version = Version::parse(version)?;
        let order = |patch: &&CratePatch| (patch.fits(version), patch.from <= version, patch.from);
        self.of(name).max_by_key(order).with_context(|| format!("{name} has no patch"))
    }
}

/// Returns the names of a directory's entries, sorted.
fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let mut names = entries.map(name).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::{Catalog, CratePatch, Version};
    use crate::patches::{Header, Series};

    fn catalog() -> Catalog {
        let patch = |since: &str, below: &str| {
            let fields = format!("Upstream: no\nSince: socket2 {since}\nDrop when: never\nBelow: {below}\n");
            let text = format!("Subject\n\nWhy.\n\n{fields}Requires: libc, mio\n\n--- a/f\n");
            let patch =
                CratePatch::new(Series::at(since.to_owned()), &Header::parse(&text).unwrap()).unwrap();
            ("socket2".to_owned(), patch)
        };
        Catalog::new(vec![patch("0.4", "0.4.9"), patch("0.6.1", "0.7")])
    }

    #[test]
    fn versions_are_compared_by_number() {
        let version = |text| Version::parse(text).unwrap();
        assert!(version("0.6.10") > version("0.6.9") && version("1.2.1+spec-1.1.0") == version("1.2.1"));
        assert!(Version::parse("1.2.3.4").is_err() && Version::parse("1.x").is_err());
    }

    #[test]
    fn find_names_known_versions() {
        let catalog = catalog();
        for version in ["0.6.1", "0.6.99"] {
            let patch = catalog.find("socket2", version).unwrap().unwrap();
            assert_eq!(patch.requires, ["libc", "mio"], "{version}");
        }
        assert!(catalog.find("serde", "1.0.0").unwrap().is_none());
        let message = catalog.find("socket2", "0.5.9").unwrap_err();
        assert_eq!(message, "socket2 0.5.9 has no patch; known: 0.4.0 to below 0.4.9, 0.6.1 to below 0.7.0");
    }

    #[test]
    fn patch_to_adapt_is_that_of_the_next_lower_versions() {
        let catalog = catalog();
        for (version, from) in [("0.3.0", "0.6.1"), ("0.4.10", "0.4"), ("0.6.2", "0.6.1"), ("1.0.0", "0.6.1")]
        {
            let nearest = catalog.nearest("socket2", version).unwrap();
            assert_eq!(nearest.from, Version::parse(from).unwrap(), "{version}");
        }
        assert!(catalog.nearest("serde", "1.0.0").is_err() && catalog.nearest("socket2", "x").is_err());
    }

    #[test]
    fn patches_of_this_repository_are_valid() {
        let catalog = Catalog::read().unwrap();
        for (name, patch) in catalog.iter() {
            assert!(patch.from < patch.below, "{name}");
            for required in &patch.requires {
                assert!(catalog.of(required).next().is_some(), "{name} requires {required}");
            }
        }
        assert!(catalog.of("socket2").next().is_some());
    }
}
