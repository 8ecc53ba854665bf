//! The header of a patch: a subject, the reason, and fields, each on a line of its own.

use anyhow::{Context, Result, ensure};

/// Fields of all patches: the state of the change upstream, the project's first version for which the patch
/// is, and the condition under which the patch can be dropped.
const REQUIRED: [&str; 3] = ["Upstream", "Since", "Drop when"];

/// Fields of patches of crates. `Below` is the first later version without the patch. `Requires` names crates
/// that must be patched, too, if they are dependencies. `Only if required` is for a crate that only needs its
/// patch with that of another crate. `Compiles unpatched` is for a crate that compiles without, but does not
/// work.
const OF_CRATES: [&str; 4] = ["Below", "Requires", "Only if required", "Compiles unpatched"];

/// A patch, taken apart.
#[derive(Debug)]
pub struct Header<'a> {
    /// The header itself, up to the diffs.
    pub text: &'a str,
    /// The diffs that follow the header.
    pub(super) diffs: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Header<'a> {
    /// Parses the header of a patch.
    pub(crate) fn parse(patch: &'a str) -> Result<Self> {
        let start = patch.find("\n--- ").context("it has no diff")? + 1;
        let (text, diffs) = patch.split_at(start);
        let last = text.trim_end().rsplit("\n\n").next().unwrap_or_default();
        let field = |line: &'a str| {
            let field = line.split_once(": ").with_context(|| format!("`{line}` is no field"))?;
            let is_known = REQUIRED.contains(&field.0) || OF_CRATES.contains(&field.0);
            ensure!(is_known, "`{}` is no field that a header has", field.0);
            Ok(field)
        };
        let fields = last.lines().map(field).collect::<Result<_>>()?;
        let header = Self { text, diffs, fields };
        REQUIRED.iter().try_for_each(|name| header.required(name).map(drop))?;
        Ok(header)
    }

    /// Returns the value of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    /// Returns the value of a field that the patch must have.
    pub fn required(&self, name: &str) -> Result<&'a str> {
        self.get(name).with_context(|| format!("its header has no field `{name}`"))
    }

    /// Returns true if a field of the kind yes or no says yes.
    pub(crate) fn is_yes(&self, name: &str) -> bool {
        self.get(name) == Some("yes")
    }
}
