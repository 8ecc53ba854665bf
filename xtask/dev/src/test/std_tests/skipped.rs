//! The list of the tests of std that are not run.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

/// Text of the list. It has a section for each package, with a line for each test: the test's name and the
/// reason.
const LIST: &str = include_str!("skipped.txt");

/// Skipped tests of a package, and the reason for each.
pub(super) type Skipped = BTreeMap<String, String>;

/// Returns the skipped tests of each package.
pub(super) fn all() -> Result<BTreeMap<String, Skipped>> {
    parse(LIST).context("skipped.txt, the list of the tests that are not run, is invalid")
}

fn parse(list: &str) -> Result<BTreeMap<String, Skipped>> {
    let mut packages: BTreeMap<String, Skipped> = BTreeMap::new();
    let mut package = None;
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            package = Some(packages.entry(name.to_owned()).or_default());
            continue;
        }
        let tests = package.as_deref_mut().with_context(|| format!("`{line}` belongs to no package"))?;
        let (name, reason) = line.split_once(' ').with_context(|| format!("`{line}` has no reason"))?;
        if tests.insert(name.to_owned(), reason.trim().to_owned()).is_some() {
            bail!("{name} occurs twice");
        }
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::{all, parse};

    #[test]
    fn list_is_valid_and_names_its_packages() {
        let packages = all().unwrap();
        assert!(packages.keys().all(|package| super::super::PACKAGES.contains(&package.as_str())));
        let mut reasons = packages.values().flat_map(|tests| tests.values());
        assert!(reasons.all(|reason| reason.len() > 5));
    }

    #[test]
    fn each_test_has_a_reason_and_a_package() {
        let packages = parse("# why\n[core]\na::b  it cannot\n\n[std]\nc too slow\n").unwrap();
        assert_eq!(packages["core"]["a::b"], "it cannot");
        assert_eq!(packages["std"]["c"], "too slow");
        for (list, text) in
            [("a b\n", "no package"), ("[core]\na\n", "no reason"), ("[core]\na b\na c\n", "a occurs twice")]
        {
            let message = parse(list).unwrap_err().to_string();
            assert!(message.contains(text), "{message}");
        }
    }
}
