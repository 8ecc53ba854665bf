//! Tests of the engine, with small patches.

use std::fs;
use std::path::Path;

use super::{Header, MUSL, Patch, STD, STD_TESTS, Series, UNWINDING, diff, patch_files};

const HEADER: &str = "Subject\n\nWhy.\n\nUpstream: no\nSince: 1\nDrop when: 2\n\n";
const DIFF: &str = "--- a/d/f\n+++ b/d/f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";

/// Makes a directory with a series of one patch, and the sources `d/f`.
fn directory(patch: &str, text: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("sources/d")).unwrap();
    fs::write(directory.path().join("a.patch"), patch).unwrap();
    fs::write(directory.path().join("sources/d/f"), text).unwrap();
    directory
}

/// Applies the series in a directory. Returns the text of `d/f`.
fn apply(directory: &Path) -> Result<String, String> {
    let sources = directory.join("sources");
    let series = Series::at(directory.to_str().unwrap().to_owned());
    series.apply(&sources).map_err(|error| format!("{error:#}"))?;
    Ok(fs::read_to_string(sources.join("d/f")).unwrap())
}

fn patched(patch: &str, text: &str) -> Result<String, String> {
    apply(directory(patch, text).path())
}

/// Returns the error of diffs that follow a valid header.
fn error(diffs: &str) -> String {
    patched(&format!("{HEADER}{diffs}"), "one\ntwo\nthree\n").unwrap_err()
}

#[test]
fn diff_applies_where_its_lines_are() {
    let patch = format!("{HEADER}{DIFF}");
    assert_eq!(patched(&patch, "one\ntwo\nthree\n").as_deref(), Ok("one\n2\nthree\n"));
    assert_eq!(patched(&patch, "zero\none\ntwo\nthree\n").as_deref(), Ok("zero\none\n2\nthree\n"));
    assert_eq!(patched(&patch, "one\r\ntwo\r\nthree\r\n").as_deref(), Ok("one\n2\nthree\n"));
}

#[test]
fn hunk_at_its_stated_line_needs_no_unique_lines() {
    let twice = "one\ntwo\nthree\n".repeat(2);
    let patch = format!("{HEADER}{DIFF}");
    assert_eq!(patched(&patch, &twice).as_deref(), Ok("one\n2\nthree\none\ntwo\nthree\n"));
    let message = patched(&patch, &format!("zero\n{twice}")).unwrap_err();
    assert!(message.contains("more than once, at lines 2, 5"), "{message}");
}

#[test]
fn hunk_moves_with_the_one_before() {
    let diffs = "--- a/d/f\n+++ b/d/f\n@@ -1,2 +1,2 @@\n-first\n+1\n one\n@@ -5,2 +5,2 @@\n one\n-two\n+2\n";
    let text = "first\none\ntwo\nthree\none\ntwo\n";
    let after = "1\none\ntwo\nthree\none\n2\n";
    let patch = format!("{HEADER}{diffs}");
    assert_eq!(patched(&patch, text).as_deref(), Ok(after));
    assert_eq!(patched(&patch, &format!("new\n{text}")), Ok(format!("new\n{after}")));
}

#[test]
fn misfit_names_patch_file_and_hunk_and_shows_lines() {
    let message = patched(&format!("{HEADER}{DIFF}"), "zero\none\n2\nthree\n").unwrap_err();
    for part in
        ["a.patch", "d/f, hunk 1 of 1 (@@ -1,3 +1,3 @@)", "  ! two\n", "at line 2\n", "  ! 2\n", "refresh"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn hunks_that_fit_are_applied_beside_others() {
    let directory = directory("", "one\ntwo\nthree\n");
    let sources = directory.path().join("sources");
    let other = DIFF.replace("d/f", "d/missing");
    let misfits = diff::apply(&format!("{other}{DIFF}"), &sources, &sources).unwrap();
    assert!(matches!(&*misfits, [only] if only.contains("d/missing: cannot read")), "{misfits:?}");
    assert_eq!(fs::read_to_string(sources.join("d/f")).unwrap(), "one\n2\nthree\n");
}

#[test]
fn misfit_causes_no_others() {
    let hunk = |line: usize, old: &str| format!("@@ -{line},2 +{line},2 @@\n {old}\n-two\n+2\n");
    let diffs = format!("--- a/d/f\n+++ b/d/f\n{}{}{}", hunk(2, "first"), hunk(5, "one"), hunk(8, "one"));
    let directory = directory("", "first\nII\n\none\ntwo\n\none\ntwo\n");
    let sources = directory.path().join("sources");
    let misfits = diff::apply(&diffs, &sources, &sources).unwrap();
    assert!(matches!(&*misfits, [only] if only.contains("hunk 1 of 3")), "{misfits:?}");
    assert_eq!(fs::read_to_string(sources.join("d/f")).unwrap(), "first\nII\n\none\n2\n\none\n2\n");
}

#[test]
fn invalid_diffs_are_rejected() {
    for (old, new, reason) in [
        ("d/f", "../f", "outside of the sources"),
        ("d/f", "/f", "outside of the sources"),
        ("+++ b/d/f", "+++ b/d/g", "are not `a/FILE` and `b/FILE`"),
        ("--- a/d/f", "--- /dev/null", "new files are in the directory `new`"),
        ("+++ b/d/f", "+++ /dev/null", "new files are in the directory `new`"),
        // Truncated, or changed by hand.
        (" three\n", "", "a.patch"),
        ("+2\n", "", "a.patch"),
        (" three\n", " three\n+four\n", "left over"),
        ("@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n", "@@ -2,0 +3 @@\n+new\n", "no context"),
        ("@@ -1,3 +1,3 @@", "@@ -1,3 @@", "a.patch"),
    ] {
        let diffs = DIFF.replace(old, new);
        assert_ne!(diffs, DIFF);
        let message = error(&diffs);
        assert!(message.contains("a.patch") && message.contains(reason), "{new}: {message}");
    }
    assert!(error("").contains("it has no diff"));
}

#[test]
fn invalid_headers_are_rejected() {
    for (old, new, reason) in [
        (HEADER, "\n", "no field"),
        ("Upstream: no\n", "", "no field `Upstream`"),
        ("Since: 1", "Sinze: 1", "`Sinze` is no field"),
        ("Since: 1", "Since 1", "`Since 1` is no field"),
    ] {
        let message = patched(&format!("{HEADER}{DIFF}").replace(old, new), "one\ntwo\nthree\n").unwrap_err();
        assert!(message.contains(reason), "{new}: {message}");
    }
    let patch = format!("{}{DIFF}", HEADER.replace("\n\n--- ", "Compiles unpatched: yes\n\n--- "));
    let header = Header::parse(&patch).unwrap();
    assert_eq!((header.get("Since"), header.is_yes("Compiles unpatched")), (Some("1"), false));
}

#[test]
fn new_file_replaces_none_of_the_sources() {
    let directory = directory(&format!("{HEADER}{DIFF}"), "one\ntwo\nthree\n");
    let [new, sources] = ["new", "sources"].map(|name| directory.path().join(name));
    fs::create_dir_all(new.join("d")).unwrap();
    fs::write(new.join("d/g"), "new").unwrap();
    apply(directory.path()).unwrap();
    assert_eq!(fs::read_to_string(sources.join("d/g")).unwrap(), "new");
    fs::write(sources.join("d/f"), "one\ntwo\nthree\n").unwrap();
    assert!(apply(directory.path()).unwrap_err().contains("d/g"));
}

#[test]
fn new_files_of_a_crate_belong_to_each_of_its_series() {
    let of_crate = tempfile::tempdir().unwrap();
    let series = ["1", "2"].map(|versions| {
        let directory = of_crate.path().join(versions);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("a.patch"), format!("{HEADER}{DIFF}")).unwrap();
        Series::of_crate(of_crate.path().to_str().unwrap(), versions)
    });
    let digests = || series.each_ref().map(|series| series.digest().unwrap());
    let before = digests();
    fs::create_dir_all(of_crate.path().join("new/d")).unwrap();
    fs::write(of_crate.path().join("new/d/g"), "new").unwrap();
    assert!(digests().iter().zip(&before).all(|(digest, before)| digest != before));
    for series in series {
        let other = directory("", "one\ntwo\nthree\n");
        let sources = other.path().join("sources");
        series.apply(&sources).unwrap();
        assert_eq!(fs::read_to_string(sources.join("d/g")).unwrap(), "new");
    }
}

#[test]
fn every_patch_is_in_its_series() {
    for series in [STD, STD_TESTS, UNWINDING, MUSL] {
        let mut listed: Vec<_> = series.patches().unwrap().into_iter().map(|patch| patch.path).collect();
        listed.sort();
        assert_eq!(listed, patch_files(&series.path()).unwrap(), "{series:?}");
    }
}

#[test]
fn patches_without_series_apply_by_name() {
    let directory = directory(&format!("{HEADER}{DIFF}"), "one\ntwo\nthree\n");
    fs::write(
        directory.path().join("b.patch"),
        format!("{HEADER}{}", DIFF.replace("two", "2").replace("+2", "+II")),
    )
    .unwrap();
    assert_eq!(apply(directory.path()).as_deref(), Ok("one\nII\nthree\n"));
    assert!(Patch::read(directory.path().join("c.patch")).is_err());
}
