//! Tests of the guides in `docs/guides`: a guide lists the files that a change takes, as the example shows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use xtask::{process, workspace};

/// Directories whose sources are part of a change: the system's own, and programs that test it.
const SOURCES: [&str; 5] = ["hermit-abi", "hermit-sys", "kernel", "loader", "examples"];

/// Text of a tracked file.
fn read(path: &str) -> String {
    fs::read_to_string(workspace::root().join(path)).unwrap()
}

/// Tracked files below [`SOURCES`] that contain one of the texts, but not those below `except`.
fn files_with(texts: &[&str], except: &[&str]) -> BTreeSet<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--"]).args(SOURCES).current_dir(workspace::root());
    let files = process::output(&mut git).unwrap();
    let files = files.lines().filter(|file| !except.iter().any(|directory| file.starts_with(directory)));
    let contains = |file: &&str| {
        let text = fs::read_to_string(workspace::root().join(file)).unwrap_or_default();
        texts.iter().any(|pattern| text.contains(pattern))
    };
    files.filter(contains).map(str::to_owned).collect()
}

/// Paths of files in the code quotes of a guide.
fn listed(guide: &str) -> BTreeSet<String> {
    let quotes = guide.split('`').skip(1).step_by(2);
    quotes.filter(|quote| Path::new(quote).extension().is_some()).map(str::to_owned).collect()
}

#[test]
fn guide_to_socket_options_lists_the_files_of_its_example() {
    let found = files_with(
        &["TCP_USER_TIMEOUT", "UserTimeout", "user_timeout"],
        &["hermit-sys/net/tcp", "hermit-sys/net/fuzz"],
    );
    let listed = listed(&read("docs/guides/socket-option.md"));
    let missing: Vec<_> = found.difference(&listed).collect();
    assert!(!found.is_empty() && missing.is_empty(), "the guide does not list {missing:?}");
}
